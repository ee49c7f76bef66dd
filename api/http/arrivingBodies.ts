import { DomainError } from "../../domain/errors.ts";

type Body = { readonly bytes: number; readonly drop: (error: DomainError) => void };

/** The bodies of a client, the oldest first. */
type Client = { bytes: number; readonly bodies: Set<Body> };

const tooMany = (): DomainError =>
  new DomainError("queue_full", "too many request bodies are arriving, try again");

/**
 * Limits the memory for bodies that are arriving. A client may have as much as is free. If it starts more, its own oldest
 * bodies are dropped: they are more likely to have stalled.
 * @returns a function that adds a body and returns what removes it, and throws DomainError queue_full
 */
export const createArrivingBodies = (
  maximumBytes: number,
): ((clientName: string, body: Body) => () => void) => {
  const clients = new Map<string, Client>();
  let total = 0;
  return (name, body) => {
    const client = clients.get(name) ?? { bytes: 0, bodies: new Set() };
    const remove = (removed: Body): void => {
      if (client.bodies.delete(removed)) {
        client.bytes -= removed.bytes;
        total -= removed.bytes;
        if (client.bodies.size === 0) {
          clients.delete(name);
        }
      }
    };
    const hasSpace = (): boolean => client.bytes + body.bytes <= maximumBytes - total;
    if (body.bytes > maximumBytes - (total - client.bytes)) {
      // Not even without the client's other bodies.
      throw tooMany();
    }
    for (const oldest of client.bodies) {
      if (hasSpace()) {
        break;
      }
      remove(oldest);
      oldest.drop(tooMany());
    }
    clients.set(name, client);
    client.bodies.add(body);
    client.bytes += body.bytes;
    total += body.bytes;
    return () => remove(body);
  };
};
