import { median } from "./statistics.ts";

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
