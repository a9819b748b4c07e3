-- A shop that sells songs, in the style of a public sample database. SQLite.
CREATE TABLE performer (
  performer_id INTEGER PRIMARY KEY,
  stage_name   TEXT NOT NULL,
  home_country TEXT,
  formed_year  INTEGER
);
CREATE TABLE record (
  record_id    INTEGER PRIMARY KEY,
  title        VARCHAR(160) NOT NULL,
  performer_id INTEGER NOT NULL REFERENCES performer(performer_id),
  released_on  DATE,
  label        TEXT
);
CREATE TABLE genre (genre_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE song (
  song_id     INTEGER PRIMARY KEY,
  title       VARCHAR(200) NOT NULL,
  record_id   INTEGER REFERENCES record(record_id),
  genre_id    INTEGER REFERENCES genre(genre_id),
  writer      TEXT,              -- empty where nobody knows
  length_ms   INTEGER NOT NULL,
  unit_price  DECIMAL(10,2) NOT NULL,
  is_explicit BOOLEAN NOT NULL DEFAULT 0
);
CREATE TABLE employee (
  employee_id INTEGER PRIMARY KEY,
  first_name  TEXT NOT NULL,
  last_name   TEXT NOT NULL,
  job_title   TEXT,
  hired_on    DATE,
  boss_id     INTEGER REFERENCES employee(employee_id)
);
CREATE TABLE customer (
  customer_id INTEGER PRIMARY KEY,
  first_name  TEXT NOT NULL,
  last_name   TEXT NOT NULL,
  email       TEXT,
  city        TEXT,
  country     TEXT,
  phone       TEXT,
  adviser_id  INTEGER REFERENCES employee(employee_id)
);
CREATE TABLE invoice (
  invoice_id     INTEGER PRIMARY KEY,
  customer_id    INTEGER NOT NULL REFERENCES customer(customer_id),
  billed_at      DATETIME NOT NULL,
  total          DECIMAL(10,2) NOT NULL,
  payment_method TEXT CHECK (payment_method IN ('card', 'paypal', 'voucher'))
);
CREATE TABLE playlist (playlist_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE playlist_song (
  playlist_id INTEGER NOT NULL REFERENCES playlist(playlist_id),
  song_id     INTEGER NOT NULL REFERENCES song(song_id),
  PRIMARY KEY (playlist_id, song_id)
);
CREATE INDEX song_by_record ON song(record_id);
