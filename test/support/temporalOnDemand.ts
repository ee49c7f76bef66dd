import type { Client } from "@temporalio/client";
import type { ValidateCharity } from "../../modules/charities/context.ts";

/*
 * Calls of Temporal that load its client when the first is made. Most tests that serve an API make none, and the client
 * with gRPC is a fifth of the time that loading the API takes.
 */

export type OpenTemporal = () => Promise<Client>;

export const temporalAt = (address: string): OpenTemporal => {
  let client: Client | null = null;
  return async () => {
    const { openTemporalClient } = await import("../../runtime/temporalClient.ts");
    client ??= openTemporalClient({ address });
    return client;
  };
};

/** Every call fails: nothing listens on port 1. */
export const unreachableTemporal = temporalAt("127.0.0.1:1");

export const validateThrough =
  (openTemporal: OpenTemporal, getDeployment: () => Promise<string>): ValidateCharity =>
  async (donationId, lookup) => {
    const { createCharityValidator } =
      await import("../../api/endpoints/createCharityValidator.ts");
    return createCharityValidator(await openTemporal(), getDeployment)(donationId, lookup);
  };
