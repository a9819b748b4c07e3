-- Shops that rent films, in the style of a public sample database. MySQL.
CREATE TABLE `language` (
  `language_id` tinyint unsigned NOT NULL AUTO_INCREMENT,
  `name` char(20) NOT NULL,
  PRIMARY KEY (`language_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE `movie` (
  `movie_id` smallint unsigned NOT NULL AUTO_INCREMENT,
  `title` varchar(128) NOT NULL,
  `release_year` year DEFAULT NULL,
  `language_id` tinyint unsigned NOT NULL,
  `rental_days` tinyint unsigned NOT NULL DEFAULT '3',
  `rental_rate` decimal(4,2) NOT NULL DEFAULT '4.99',
  `minutes` smallint unsigned DEFAULT NULL,
  `replacement_cost` decimal(5,2) NOT NULL,
  `rating` enum('G','PG','PG-13','R') DEFAULT 'G',
  PRIMARY KEY (`movie_id`),
  KEY `movie_language` (`language_id`),
  CONSTRAINT `fk_movie_language` FOREIGN KEY (`language_id`) REFERENCES `language` (`language_id`)
) ENGINE=InnoDB;
CREATE TABLE `genre` (`genre_id` tinyint unsigned NOT NULL PRIMARY KEY, `name` varchar(25) NOT NULL) ENGINE=InnoDB;
CREATE TABLE `movie_genre` (
  `movie_id` smallint unsigned NOT NULL,
  `genre_id` tinyint unsigned NOT NULL,
  PRIMARY KEY (`movie_id`,`genre_id`),
  FOREIGN KEY (`movie_id`) REFERENCES `movie` (`movie_id`),
  FOREIGN KEY (`genre_id`) REFERENCES `genre` (`genre_id`)
) ENGINE=InnoDB;
CREATE TABLE `actor` (
  `actor_id` smallint unsigned NOT NULL PRIMARY KEY,
  `first_name` varchar(45) NOT NULL,
  `last_name` varchar(45) NOT NULL
) ENGINE=InnoDB;
CREATE TABLE `movie_actor` (
  `movie_id` smallint unsigned NOT NULL,
  `actor_id` smallint unsigned NOT NULL,
  PRIMARY KEY (`actor_id`,`movie_id`),
  FOREIGN KEY (`movie_id`) REFERENCES `movie` (`movie_id`),
  FOREIGN KEY (`actor_id`) REFERENCES `actor` (`actor_id`)
) ENGINE=InnoDB;
CREATE TABLE `store` (
  `store_id` tinyint unsigned NOT NULL PRIMARY KEY,
  `city` varchar(50) NOT NULL,
  `manager_name` varchar(60)
) ENGINE=InnoDB;
CREATE TABLE `member` (
  `member_id` smallint unsigned NOT NULL PRIMARY KEY,
  `store_id` tinyint unsigned NOT NULL,
  `first_name` varchar(45) NOT NULL,
  `last_name` varchar(45) NOT NULL,
  `email` varchar(50) DEFAULT NULL,
  `active` tinyint(1) NOT NULL DEFAULT '1',
  `joined_on` date NOT NULL,
  FOREIGN KEY (`store_id`) REFERENCES `store` (`store_id`)
) ENGINE=InnoDB;
CREATE TABLE `rental` (
  `rental_id` int NOT NULL PRIMARY KEY,
  `movie_id` smallint unsigned NOT NULL,
  `member_id` smallint unsigned NOT NULL,
  `rented_at` datetime NOT NULL,
  `returned_at` datetime DEFAULT NULL,
  FOREIGN KEY (`movie_id`) REFERENCES `movie` (`movie_id`),
  FOREIGN KEY (`member_id`) REFERENCES `member` (`member_id`)
) ENGINE=InnoDB;
CREATE TABLE `payment` (
  `payment_id` int NOT NULL PRIMARY KEY,
  `member_id` smallint unsigned NOT NULL,
  `rental_id` int DEFAULT NULL,
  `amount` decimal(5,2) NOT NULL,
  `paid_at` datetime NOT NULL,
  FOREIGN KEY (`member_id`) REFERENCES `member` (`member_id`),
  FOREIGN KEY (`rental_id`) REFERENCES `rental` (`rental_id`)
) ENGINE=InnoDB;
