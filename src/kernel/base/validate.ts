/** Input against a schema: what a host passes in code is checked as strictly as what comes over HTTP. */
import type { z } from 'zod'
import { type InputError, invalid } from './errors.ts'

/** The value, or `E_INVALID_REQUEST` with every error; `where` stands before their paths. */
export function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, where = ''): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(validationErrorsOf(result.error, where))
}

export const validationErrorsOf = (error: z.ZodError, where = ''): InputError[] =>
  error.issues.map((issue) => ({
    path: [where, ...issue.path.map(String)].filter(Boolean).join('.'),
    message: issue.message,
  }))
