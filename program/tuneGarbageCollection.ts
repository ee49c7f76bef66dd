import { setFlagsFromString } from "node:v8";

/** How much larger than what lives the old generation may become before it is collected, in percent. */
const HEAP_GROWING_PERCENT = 200;

/**
 * Tunes V8's garbage collector for a server whose objects live as long as a request. Both settings are about objects that
 * die soon after V8 has moved them to the old generation, where each of them also keeps alive what it refers to:
 *
 * - V8 allocates objects there directly if those that the same code allocated earlier survived for a while. Requests that
 *   wait for the database look like that.
 * - After an idle time V8 lets the old generation grow by little between two collections, of which a busy process then
 *   runs one a second, on a core that the database needs.
 *
 * Docs: performance.md, "What a request costs".
 */
export const tuneGarbageCollection = (): void => {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
};
