"""One data set in three files: training, validation and test rows that are no copies of one another."""
