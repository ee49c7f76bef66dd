import { Resolver } from "node:dns/promises";
import { LOCALHOST } from "./allowedAddresses.ts";

export type Resolve = (hostname: string) => Promise<readonly string[]>;

const TRY_TIMEOUT_MS = 3000;
const TRIES = 2;

/**
 * Returns the addresses of a host from DNS. It does not use the threads that `dns.lookup` shares with the rest of the
 * process, so a name server that does not respond delays no other work. It does not read /etc/hosts either.
 */
export const resolveAddresses: Resolve = async (hostname) => {
  if (LOCALHOST.test(hostname)) {
    return ["127.0.0.1", "::1"];
  }
  const resolver = new Resolver({ timeout: TRY_TIMEOUT_MS, tries: TRIES });
  const answers = await Promise.allSettled([
    resolver.resolve4(hostname),
    resolver.resolve6(hostname),
  ]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
};
