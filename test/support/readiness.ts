import type { Readiness } from "../../runtime/server/watchHealth.ts";

/** The readiness of a process whose services all respond. */
export const READY: Readiness = { status: "ok", database: "ok", clock: "ok", temporal: "ok" };
