import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import decode, { init } from "@jsquash/webp/decode.js";

type Pixels = {
  readonly data: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
};

/** The class of browsers in which the decoder returns its result. */
class ImageData implements Pixels {
  readonly data: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;

  constructor(data: Uint8ClampedArray, width: number, height: number) {
    this.data = data;
    this.width = width;
    this.height = height;
  }
}

/** @throws Error if the file is damaged or animated */
export const decodeWebp = async (file: Uint8Array): Promise<Pixels> => {
  Object.assign(globalThis, { ImageData });
  const path = fileURLToPath(import.meta.resolve("@jsquash/webp/codec/dec/webp_dec.wasm"));
  await init({ wasmBinary: await readFile(path) });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library's type is a browser's.
  return (await decode(new Uint8Array(file).buffer)) as Pixels;
};
