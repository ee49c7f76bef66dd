import type { Check } from "./check.ts";
import { Difference, MissingSetting } from "./client.ts";
import type { Service } from "./client.ts";

export type Outcome =
  | { readonly result: "ok" }
  | { readonly result: "differs"; readonly reason: string }
  | { readonly result: "skipped"; readonly reason: string };

/** Runs one check. Errors that say nothing about the server are thrown. */
export const runCheck = async (service: Service, { run }: Check): Promise<Outcome> => {
  try {
    await run(service);
    return { result: "ok" };
  } catch (error) {
    if (error instanceof MissingSetting) {
      return { result: "skipped", reason: error.message };
    }
    if (error instanceof Difference) {
      return { result: "differs", reason: error.message };
    }
    throw error;
  }
};
