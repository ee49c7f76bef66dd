import { setFlagsFromString } from "node:v8";

/** How far the old generation may grow beyond its live size before it is collected, in percent. */
const HEAP_GROWING_PERCENT = 200;

/**
 * Sets V8's collector for requests that wait for the database: their objects are not allocated in the old generation,
 * where dead objects keep others alive, and major collections do not become frequent after an idle time. See
 * docs/adr/0100-collector-for-requests-that-wait.md.
 */
export const tuneGarbageCollection = (): void => {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
};
