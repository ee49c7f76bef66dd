import type { CommonQueryMethods } from "slonik";
import { listRegistrationIds } from "../../db/registrations/registrations.ts";
import { DomainError } from "../../domain/errors.ts";

/**
 * Returns the id of the registration that an operator names by its id or by the id that it was imported with.
 * @throws DomainError record_not_found, or request_invalid if several accounts have imported such an id
 */
export const getRegistrationId = async (db: CommonQueryMethods, given: string): Promise<string> => {
  const [id, ...others] = await listRegistrationIds(db, given);
  if (id === undefined) {
    throw new DomainError("record_not_found", `registration ${given} not found`);
  }
  if (others.length > 0) {
    throw new DomainError(
      "request_invalid",
      `${others.length + 1} imported registrations have the id ${given}; \`impact find\` shows their internal ids`,
    );
  }
  return id;
};
