/** Returns the value below which the given share of the values lies. */
export const percentile = (values: readonly number[], share: number): number => {
  const ascending = values.toSorted((left, right) => left - right);
  return (
    ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? Number.NaN
  );
};

export const median = (values: readonly number[]): number => {
  const ascending = values.toSorted((left, right) => left - right);
  const middle = (ascending.length - 1) / 2;
  return (
    ((ascending[Math.floor(middle)] ?? Number.NaN) + (ascending[Math.ceil(middle)] ?? Number.NaN)) /
    2
  );
};

/** Formats the median with the minimum and the maximum, which show how noisy the machine was. */
export const describeSpread = (values: readonly number[], digits = 0): string =>
  `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`;

/** Makes calls one after the other and returns the median duration of one in milliseconds. */
export const timeCalls = async (
  calls: number,
  call: (index: number) => Promise<unknown>,
): Promise<number> => {
  const times: number[] = [];
  for (let index = 0; index < calls; index += 1) {
    const startedAtMs = performance.now();
    await call(index);
    times.push(performance.now() - startedAtMs);
  }
  return median(times);
};
