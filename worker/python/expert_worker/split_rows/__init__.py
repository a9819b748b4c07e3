"""One data set in three files: training, validation and test rows that do not copy each other."""
