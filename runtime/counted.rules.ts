/** Returns a number with its noun, such as "1 line" or "1,200 lines". */
export const counted = (count: number | bigint, one: string, many = `${one}s`): string =>
  `${count.toLocaleString("en-US")} ${Number(count) === 1 ? one : many}`;
