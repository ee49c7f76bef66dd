import { randomBytes } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { getOrInsertCertificate } from "../../db/dashboard/certificates.ts";
import { findOwnRegistration } from "../../db/registrations/registrations.ts";
import { KINDS } from "../../domain/accounts/accounts.ts";
import type { AccountMode, Kind } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";

/** 128 random bits, which nobody can guess. */
const TOKEN_BYTES = 16;

/**
 * Returns the token of a registration's public certificate, creating it on first use. It stays the same until it is
 * revoked.
 * @param kind of a tree and a bottle registration that were imported with the same id, the one that is meant
 * @throws DomainError record_not_found
 */
export const getCertificateToken = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  owner: AccountMode,
  id: string,
  kind: Kind | null,
): Promise<string> => {
  for (const candidate of kind === null ? KINDS : [kind]) {
    const registration = await findOwnRegistration(db, { ...owner, kind: candidate }, id);
    if (registration) {
      return getOrInsertCertificate(db, {
        token: randomBytes(TOKEN_BYTES).toString("base64url"),
        accountId: owner.accountId,
        registrationId: registration.id,
        createdAt: clock.now(),
      });
    }
  }
  throw new DomainError("record_not_found", "failed to find registration");
};
