/**
 * Reads chunks until one of them shows the format, or they end.
 * @param showsFormat gets each chunk, and how many bytes were read with it
 * @returns what was read, and all bytes from the start
 */
export const peek = async (
  chunks: AsyncIterable<Buffer>,
  showsFormat: (chunk: Buffer, bytesRead: number) => boolean,
): Promise<{ readonly start: Buffer; readonly bytes: AsyncGenerator<Buffer, void, void> }> => {
  const iterator = chunks[Symbol.asyncIterator]();
  const read: Buffer[] = [];
  let bytesRead = 0;
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    read.push(next.value);
    bytesRead += next.value.length;
    if (showsFormat(next.value, bytesRead)) {
      break;
    }
  }
  const start = Buffer.concat(read);
  const repeat = async function* repeat(): AsyncGenerator<Buffer, void, void> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => iterator };
  };
  return { start, bytes: repeat() };
};
