import type { Client } from "@temporalio/client";
import { openTemporalClient } from "../../program/temporal/temporalClient.ts";

/** A client whose every call fails: nothing listens on port 1. */
export const unreachableTemporal = (): Client => openTemporalClient({ address: "127.0.0.1:1" });
