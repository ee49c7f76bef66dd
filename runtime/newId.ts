/** Of a millisecond: what its three digits hold. */
const MAXIMUM_COUNT = 0xfff;

let lastMs = 0;
let count = 0;

/** Returns a UUID of version 7. The ids of a process ascend, also within a millisecond and if the clock is set back. */
export const newId = (): string => {
  count += 1;
  const now = Date.now();
  if (now > lastMs || count > MAXIMUM_COUNT) {
    lastMs = Math.max(now, lastMs + 1);
    count = 0;
  }
  const time = lastMs.toString(16).padStart(12, "0");
  const place = count.toString(16).padStart(3, "0");
  // The last two groups of a random UUID are those of one of version 7.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${place}-${crypto.randomUUID().slice(19)}`;
};
