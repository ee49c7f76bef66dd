/**
 * Reads chunks until they show the format, or end.
 * @returns what was read, and all bytes from the start
 */
export const peek = async (
  chunks: AsyncIterable<Buffer>,
  showsFormat: (start: Buffer) => boolean,
): Promise<{ readonly start: Buffer; readonly bytes: AsyncGenerator<Buffer, void, void> }> => {
  const iterator = chunks[Symbol.asyncIterator]();
  let start = Buffer.alloc(0);
  while (!showsFormat(start)) {
    const next = await iterator.next();
    if (next.done === true) {
      break;
    }
    start = Buffer.concat([start, next.value]);
  }
  const repeat = async function* repeat(): AsyncGenerator<Buffer, void, void> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => iterator };
  };
  return { start, bytes: repeat() };
};
