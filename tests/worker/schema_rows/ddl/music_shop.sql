-- A shop that sells music, in SQLite's words.
CREATE TABLE artists (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT);
CREATE TABLE albums (
  album_id INTEGER PRIMARY KEY AUTOINCREMENT,
  title VARCHAR(160) NOT NULL,
  artist_id INTEGER NOT NULL REFERENCES artists(artist_id),
  release_year INT
);
CREATE TABLE genres (genre_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE tracks (
  track_id INTEGER PRIMARY KEY,
  name VARCHAR(200) NOT NULL,
  album_id INT REFERENCES albums(album_id),
  genre_id INT REFERENCES genres,
  composer TEXT,
  milliseconds INT NOT NULL,
  bytes INT,
  unit_price DECIMAL(10,2) NOT NULL CHECK (unit_price > 0)
);
CREATE TABLE staff (
  staff_id INTEGER PRIMARY KEY, first_name TEXT, last_name TEXT, title TEXT, hire_date DATE,
  reports_to INT REFERENCES staff(staff_id), city TEXT
);
CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT, phone TEXT,
  city TEXT, country TEXT, support_rep_id INT REFERENCES staff(staff_id)
);
CREATE TABLE invoices (
  invoice_id INTEGER PRIMARY KEY,
  customer_id INT NOT NULL,
  invoice_date DATETIME NOT NULL,
  billing_country TEXT,
  total NUMERIC(10,2),
  status TEXT CHECK (status IN ('paid', 'open', 'refunded')),
  FOREIGN KEY (customer_id) REFERENCES customers (customer_id)
);
CREATE TABLE playlists (playlist_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE playlist_track (
  playlist_id INT REFERENCES playlists(playlist_id), track_id INT REFERENCES tracks(track_id),
  PRIMARY KEY (playlist_id, track_id)
);
CREATE INDEX tracks_by_name ON tracks(name);
