import { DomainError } from "../../runtime/errors.rules.ts";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { Authenticate } from "../../modules/accounts/createAuthenticator.ts";
import type { RequestContext } from "./requestContext.ts";

/** Returns the caller whose key is in `Authorization`. Throws an error if the key is not valid. */
export const authenticate =
  (findCaller: Authenticate) =>
  async ({ req: { headers } }: RequestContext): Promise<Caller> => {
    const { authorization: key = "" } = headers;
    const caller = key === "" ? null : await findCaller(key);
    if (caller?.accountType !== "organization") {
      throw new DomainError("key_invalid", "invalid API key");
    }
    return caller;
  };
