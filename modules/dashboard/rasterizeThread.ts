import { parentPort } from "node:worker_threads";
import { rasterize } from "./rasterize.ts";

/*
 * The thread that draws pictures for `createRasterizer`, so that requests do not wait for them.
 */

/** One picture to draw. */
export type DrawRequest = { readonly id: number; readonly svg: string };

export type DrawResponse = { readonly id: number } & (
  | { readonly png: Uint8Array }
  | { readonly error: string }
);

const draw = async ({ id, svg }: DrawRequest): Promise<DrawResponse> => {
  try {
    return { id, png: (await rasterize(svg)).png };
  } catch (error) {
    return { id, error: String(error) };
  }
};

parentPort?.on("message", (request: DrawRequest) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origins.
  void draw(request).then((response) => parentPort?.postMessage(response));
});
