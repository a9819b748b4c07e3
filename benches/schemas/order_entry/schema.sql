-- A wholesaler who takes orders, in the style of a public sample database. PostgreSQL.
CREATE TABLE "Clients" (
  "ClientID" serial PRIMARY KEY,
  "CompanyName" varchar(80) NOT NULL,
  "ContactName" varchar(60),
  "City" varchar(40),
  "Country" varchar(40),
  "Phone" varchar(24)
);
CREATE TABLE "Vendors" (
  "VendorID" serial PRIMARY KEY,
  "CompanyName" varchar(80) NOT NULL,
  "City" varchar(40),
  "Country" varchar(40)
);
CREATE TABLE "Categories" ("CategoryID" serial PRIMARY KEY, "CategoryName" varchar(30) NOT NULL);
CREATE TABLE "Products" (
  "ProductID" serial PRIMARY KEY,
  "ProductName" varchar(60) NOT NULL,
  "VendorID" integer REFERENCES "Vendors" ("VendorID"),
  "CategoryID" integer REFERENCES "Categories" ("CategoryID"),
  "UnitPrice" numeric(10,2) CHECK ("UnitPrice" >= 0),
  "UnitsInStock" smallint,
  "ReorderLevel" smallint,
  "Discontinued" boolean NOT NULL DEFAULT false
);
CREATE TABLE "Employees" (
  "EmployeeID" serial PRIMARY KEY,
  "FirstName" varchar(20) NOT NULL,
  "LastName" varchar(30) NOT NULL,
  "Title" varchar(40),
  "HireDate" date
);
CREATE TABLE "Carriers" ("CarrierID" serial PRIMARY KEY, "CarrierName" varchar(40) NOT NULL);
CREATE TABLE "Orders" (
  "OrderID" serial PRIMARY KEY,
  "ClientID" integer NOT NULL REFERENCES "Clients" ("ClientID"),
  "EmployeeID" integer REFERENCES "Employees" ("EmployeeID"),
  "CarrierID" integer REFERENCES "Carriers" ("CarrierID"),
  "OrderDate" date NOT NULL,
  "ShippedDate" date,
  "Freight" numeric(10,2),
  "ShipCountry" varchar(40)
);
CREATE TABLE "OrderLines" (
  "OrderLineID" serial PRIMARY KEY,
  "OrderID" integer NOT NULL REFERENCES "Orders" ("OrderID"),
  "ProductID" integer NOT NULL REFERENCES "Products" ("ProductID"),
  "UnitPrice" numeric(10,2) NOT NULL,
  "Quantity" smallint NOT NULL,
  "Discount" real NOT NULL DEFAULT 0
);
CREATE INDEX "OrdersByClient" ON "Orders" ("ClientID");
