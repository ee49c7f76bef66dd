import { revokeCertificate as revoke } from "./certificates.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/**
 * Revokes a certificate's URL. Its page is gone in every process within seconds.
 * @returns the record that it was of; of an order, the first one when the certificate was created
 * @throws DomainError record_not_found if there is none with the token, or it was revoked before
 */
export const revokeCertificate = (
  { db, clock, actor }: OperatorContext,
  token: string,
): Promise<{ readonly recordId: string; readonly isOfOrder: boolean }> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const revoked = await revoke(transaction, token, now);
    if (revoked === null) {
      throw new DomainError("record_not_found", "certificate not found, or already revoked");
    }
    const { accountId, recordId, isOfOrder } = revoked;
    await recordAction(transaction, actor, now, {
      action: "certificate.revoke",
      accountId,
      subject: recordId,
      details: { isOfOrder },
    });
    return { recordId, isOfOrder };
  });
