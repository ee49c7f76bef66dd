import { z } from "zod";

const details = z.object({
  code: z.string().optional().catch(undefined),
  message: z.string(),
  stderr: z.string().optional().catch(undefined),
});

/** Returns the details of an error of a system call, a program or a connection. */
export const errorDetails = (error: unknown): z.output<typeof details> => {
  const { data } = details.safeParse(error);
  return data ?? { message: String(error) };
};
