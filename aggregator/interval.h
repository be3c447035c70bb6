/* interval: how far a sampled figure may be from the truth, at 95 %.
 * interval_poisson: the exact (Garwood) two-sided interval of a Poisson mean from one count: low =
 * chi2(0.025; 2n)/2, high = chi2(0.975; 2n+2)/2. Up to INTERVAL_EXACT_COUNT the quantile is solved for to
 * 1e-9; above it Byar's cubic approximation is used, which there differs from the exact bounds by less than
 * 2e-5 * sqrt(count) (the half width is about 2 * sqrt(count)). interval_wilson: Wilson's score interval of a
 * proportion; 0..1; whole 0 gives 0..1 (nothing is known). Both speak of counting noise alone: samples within
 * one pod are not independent (what that means for differences is the diff's matter). Threads: any. Source:
 * Garwood, Biometrika 28 (1936); Rothman & Boice (1979) for Byar's form; Wilson, JASA 22 (1927). */
#ifndef AGGREGATOR_INTERVAL_H
#define AGGREGATOR_INTERVAL_H

#include <stdint.h>

#define INTERVAL_EXACT_COUNT 1000u

void interval_poisson(uint64_t count, double *ret_low, double *ret_high);
/* part > whole is taken as part == whole. */
void interval_wilson(uint64_t part, uint64_t whole, double *ret_low, double *ret_high);

/* The Poisson interval of count, scaled to a value that those count samples add up to (cpu nanoseconds, say).
 * With count 0 both are 0: the size of a sample is not known. Saturates at UINT64_MAX. */
void interval_scale(uint64_t value, uint64_t count, uint64_t *ret_low, uint64_t *ret_high);

#endif
