import { once } from "node:events";
import { request } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";

/** Reads a response as fast as it comes. */
export const readStream = async (
  url: string,
  options: RequestOptions,
  onChunk: (chunk: Buffer) => void,
): Promise<void> => {
  const call = request(url, options);
  call.end();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- events are not typed; `response` has one value.
  const [response] = (await once(call, "response")) as [IncomingMessage];
  response.on("data", onChunk);
  await once(response, "end");
  if (response.statusCode !== 200) {
    throw new Error(`${url} returned status ${response.statusCode}.`);
  }
};
