import { setTimeout as delay } from "node:timers/promises";
import { CACHED_MS } from "../services/accounts/createRefreshedCache.ts";
import { say } from "./io.ts";
import type { Io } from "./io.ts";

/** Timers may fire a millisecond early. */
const MARGIN_MS = 50;

/** Waits until no API process uses an account, key or store as it was before a change that is committed. */
export const awaitCachedKeys = async (io: Io): Promise<void> => {
  say(io, `Waiting ${CACHED_MS / 1000} seconds until every API process has noticed.`);
  await delay(CACHED_MS + MARGIN_MS);
};
