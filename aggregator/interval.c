#include "aggregator/interval.h"

#include <math.h>

#define Z_95       1.959963984540054 /* standard normal quantile of 0.975 */
#define TAIL       0.025
#define MAX_TERMS  2000 /* enough for counts to INTERVAL_EXACT_COUNT */
#define NEWTON_MAX 50
#define TOLERANCE  1e-12

/* x^a e^-x / Gamma(a): a times the Poisson probability of a at mean x. lgamma_r, since lgamma writes a
 * global. */
static double gamma_term(double a, double x)
{
    int sign;
    return exp(a * log(x) - x - lgamma_r(a, &sign));
}

/* The regularised lower incomplete gamma function P(a, x), by its power series below a + 1 and the continued
 * fraction (modified Lentz) above; Abramowitz & Stegun 6.5.29 and 6.5.31. */
static double gamma_lower(double a, double x)
{
    if (x <= 0)
        return 0;
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int n = 1; n < MAX_TERMS && term > sum * 1e-17; n++) {
            term *= x / (a + n);
            sum += term;
        }
        return sum * gamma_term(a, x);
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d;
    for (int n = 1; n < MAX_TERMS; n++) {
        double an = -n * (n - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        fraction *= c * d;
        if (fabs(c * d - 1) < 1e-16)
            break;
    }
    return 1 - fraction * gamma_term(a, x);
}

/* Solves P(a, x) = p, Newton's steps from a start that is close already (Byar's). */
static double gamma_quantile(double a, double p, double start)
{
    double x = start > 0 ? start : 1e-3;
    for (int i = 0; i < NEWTON_MAX; i++) {
        double slope = gamma_term(a, x) / x;
        double step = (gamma_lower(a, x) - p) / slope;
        if (step > x / 2)
            step = x / 2; /* stay positive */
        x -= step;
        if (fabs(step) < TOLERANCE * x)
            break;
    }
    return x;
}

/* Wilson & Hilferty's cube, the form Byar gave for Poisson limits. */
static double byar(double n, double z)
{
    double root = 1 - 1 / (9 * n) + z / (3 * sqrt(n));
    return n * root * root * root;
}

void interval_poisson(uint64_t count, double *ret_low, double *ret_high)
{
    double n = (double)count;
    double low = count ? byar(n, -Z_95) : 0;
    double high = byar(n + 1, Z_95);
    if (count <= INTERVAL_EXACT_COUNT) {
        low = count ? gamma_quantile(n, TAIL, low) : 0;
        high = gamma_quantile(n + 1, 1 - TAIL, high);
    }
    *ret_low = low;
    *ret_high = high;
}

void interval_wilson(uint64_t part, uint64_t whole, double *ret_low, double *ret_high)
{
    if (whole == 0) {
        *ret_low = 0;
        *ret_high = 1;
        return;
    }
    double n = (double)whole, p = part < whole ? (double)part / n : 1.0;
    double z2 = Z_95 * Z_95;
    double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half = Z_95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n);
    /* At the ends the formula is exactly 0 or 1; rounding must not say otherwise. */
    *ret_low = part == 0 ? 0 : fmax(0, centre - half);
    *ret_high = part >= whole ? 1 : fmin(1, centre + half);
}

static uint64_t round_u64(double value)
{
    return value >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)(value + 0.5);
}

void interval_scale(uint64_t value, uint64_t count, uint64_t *ret_low, uint64_t *ret_high)
{
    if (count == 0) {
        *ret_low = *ret_high = 0;
        return;
    }
    double low, high;
    interval_poisson(count, &low, &high);
    double each = (double)value / (double)count;
    *ret_low = round_u64(low * each);
    *ret_high = round_u64(high * each);
}
