/* The rows of the Wine data set, class after class: 59, 71 and 48 of them. */
#ifndef GYRE_DATA_WINE_DATA_H
#define GYRE_DATA_WINE_DATA_H

#define GYRE_WINE_ROWS     178
#define GYRE_WINE_FEATURES 13

extern const double gyre_wine_values[GYRE_WINE_ROWS][GYRE_WINE_FEATURES];

#endif
