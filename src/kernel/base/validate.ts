/** Validates input by a schema. Input from code is checked as strictly as input over HTTP. */
import type { z } from 'zod'
import { type InputError, invalid } from './errors.ts'

/** Returns the value, or throws `E_INVALID_REQUEST` with every error; `where` precedes their paths. */
export function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, where = ''): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(validationErrorsOf(result.error, where))
}

/** The value as JSON text, undefined for a value without one, or `E_INVALID_REQUEST`, for example for a circular value. */
export function toJson(value: unknown, path: string): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    throw invalid([{ path, message: 'must be serialisable as JSON' }])
  }
}

export const validationErrorsOf = (error: z.ZodError, where = ''): InputError[] =>
  error.issues.map((issue) => ({
    path: [where, ...issue.path.map(String)].filter(Boolean).join('.'),
    message: issue.message,
  }))
