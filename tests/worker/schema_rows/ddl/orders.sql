-- MySQL dump of a trading company
/*!40101 SET NAMES utf8 */;
DROP TABLE IF EXISTS `Categories`;
CREATE TABLE `Categories` (
  `CategoryID` int(11) NOT NULL AUTO_INCREMENT,
  `CategoryName` varchar(40) NOT NULL COMMENT 'it''s shown in the shop',
  `Description` mediumtext,
  PRIMARY KEY (`CategoryID`),
  KEY `by_name` (`CategoryName`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO `Categories` VALUES (1,'Tea; coffee','it\'s (hot'),(2,'Sweets',NULL);
CREATE TABLE `Suppliers` (
  `SupplierID` int(11) NOT NULL AUTO_INCREMENT,
  `CompanyName` varchar(40) NOT NULL,
  `City` varchar(20) DEFAULT NULL,
  `Country` varchar(20) DEFAULT NULL,
  PRIMARY KEY (`SupplierID`)
) ENGINE=InnoDB;
CREATE TABLE `Products` (
  `ProductID` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `ProductName` varchar(60) CHARACTER SET utf8 NOT NULL,
  `SupplierID` int(11) DEFAULT NULL,
  `CategoryID` int(11) DEFAULT NULL,
  `UnitPrice` decimal(10,4) DEFAULT '0.0000',
  `UnitsInStock` smallint(6) DEFAULT '0',
  `Discontinued` tinyint(1) NOT NULL DEFAULT '0',
  PRIMARY KEY (`ProductID`),
  CONSTRAINT `fk_supplier` FOREIGN KEY (`SupplierID`) REFERENCES `Suppliers` (`SupplierID`) ON DELETE SET NULL,
  CONSTRAINT `fk_category` FOREIGN KEY (`CategoryID`) REFERENCES `Categories` (`CategoryID`)
) ENGINE=InnoDB;
CREATE TABLE `Customers` (
  `CustomerID` int(11) NOT NULL,
  `CompanyName` varchar(40) NOT NULL,
  `ContactName` varchar(30) DEFAULT NULL,
  `City` varchar(20) DEFAULT NULL,
  PRIMARY KEY (`CustomerID`)
);
CREATE TABLE `Orders` (
  `OrderID` int(11) NOT NULL AUTO_INCREMENT,
  `CustomerID` int(11) DEFAULT NULL,
  `OrderDate` datetime DEFAULT NULL,
  `ShippedDate` date DEFAULT NULL,
  `Freight` decimal(10,4) DEFAULT '0.0000',
  `State` enum('new','shipped','returned') NOT NULL DEFAULT 'new',
  PRIMARY KEY (`OrderID`),
  FOREIGN KEY (`CustomerID`) REFERENCES `Customers` (`CustomerID`)
);
CREATE TABLE `Order Details` (
  `OrderID` int(11) NOT NULL,
  `ProductID` int(11) unsigned NOT NULL,
  `UnitPrice` decimal(10,4) NOT NULL,
  `Quantity` smallint(6) NOT NULL DEFAULT '1',
  PRIMARY KEY (`OrderID`,`ProductID`),
  FOREIGN KEY (`OrderID`) REFERENCES `Orders` (`OrderID`),
  FOREIGN KEY (`ProductID`) REFERENCES `Products` (`ProductID`)
);
DELIMITER ;;
CREATE TRIGGER fill BEFORE INSERT ON Orders FOR EACH ROW BEGIN
  SET NEW.Freight = 1;
END;;
DELIMITER ;
