/**
 * Declares failures that callers receive, each once, with a stable `code` and an HTTP status. http/problem.ts turns them into responses,
 * cli/exit-codes.ts into exit codes. Any other error is a fault of Tenantry: it is logged, and the response is 500 without its text.
 */
import type { z } from 'zod'

/** Members of a problem response in addition to the standard ones, e.g. `{ quota, limit, usage }`. */
export type ErrorExtras = Readonly<Record<string, unknown>>

export interface ErrorOptions {
  /** Additional members of the problem+json answer. Never secrets, never another system's text. */
  extras?: ErrorExtras
  /** Seconds until a retry makes sense; becomes the `Retry-After` header. */
  retryAfterSeconds?: number
  /** Headers of the response in addition to those of every problem; names in lower case. */
  headers?: Readonly<Record<string, string>>
  /** The underlying failure; logged, never answered. */
  cause?: unknown
}

/** Name of a property with the error itself. MikroORM copies all properties with a name into its own error. */
const ITSELF = 'tenancyError'

export class TenancyError extends Error {
  override readonly name: string = 'TenancyError'
  readonly code: string
  readonly status: number
  readonly title: string
  readonly extras: ErrorExtras
  readonly retryAfterSeconds: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /** The message. Some database libraries add their SQL to `message`, which responses must not contain. */
  declare readonly detail: string

  constructor(type: { code: string; status: number; title: string }, detail: string, options: ErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = type.code
    this.status = type.status
    this.title = type.title
    this.extras = options.extras ?? {}
    this.retryAfterSeconds = options.retryAfterSeconds
    this.headers = options.headers ?? {}
    Object.defineProperties(this, { detail: { value: detail }, [ITSELF]: { value: this } })
  }
}

/**
 * The Tenantry error inside the error of a database library: TypeORM, Sequelize, Drizzle, MikroORM, and Prisma with
 * `prismaAdapter`. Undefined for any other error, also for an error of the host whose `cause` is a Tenantry error.
 *
 * @example
 *   if (tenancyErrorOf(error)?.code === 'E_TENANT_SUSPENDED') return
 */
export function tenancyErrorOf(error: unknown): TenancyError | undefined {
  if (error instanceof TenancyError) return error
  if (typeof error !== 'object' || error === null) return undefined
  const { driverError, original, meta, cause, query, [ITSELF]: copied } = error as Record<string, any>
  const wrapped = [driverError, original, copied, meta?.[ITSELF], query === undefined ? undefined : cause]
  return wrapped.find((one) => one instanceof TenancyError)
}

/**
 * A kind of error: a call makes one, `instanceof` and `matches` recognise one.
 *
 * @example
 *   throw TenantNotFound('Tenant "acme" not found.')
 *   if (error instanceof TenantNotFound) console.log(error.status) // 404
 */
export interface ErrorType extends ErrorResponse {
  (detail: string, options?: ErrorOptions): TenancyError
  [Symbol.hasInstance](error: unknown): error is TenancyError
  readonly code: string
  readonly status: number
  readonly title: string
  readonly matches: (error: unknown) => error is TenancyError
}

/** Members and headers of its problems in addition to the standard ones, for the description of the API. */
export interface ErrorResponse {
  /** As schemas, by name. */
  readonly members?: z.ZodRawShape
  /** Descriptions, by name. */
  readonly headers?: Readonly<Record<string, string>>
}

export function defineError(code: string, status: number, title: string, response: ErrorResponse = {}): ErrorType {
  const type = { code, status, title }
  const make = (detail: string, options?: ErrorOptions) => new TenancyError(type, detail, options)
  const matches = (error: unknown): error is TenancyError => error instanceof TenancyError && error.code === code
  Object.defineProperty(make, Symbol.hasInstance, { value: matches })
  return Object.assign(make as ErrorType, { ...type, ...response, matches })
}

/** A start or command cannot use its configuration. No response has it. */
export const InvalidConfiguration = defineError('E_CONFIGURATION', 400, 'Invalid configuration')

export const InvalidRequest = defineError('E_INVALID_REQUEST', 400, 'The request is not valid')
export const NotFound = defineError('E_NOT_FOUND', 404, 'Not found')
export const SatelliteDisabled = defineError('E_SATELLITE_DISABLED', 404, 'Satellite disabled')

/** A dependency (database, store, provider) cannot be reached. The host catches it by `code`. */
export const DependencyUnavailable = defineError('E_DEPENDENCY_UNAVAILABLE', 503, 'A dependency is unavailable')

/** A request is not authentic. Its detail is the reason, without a secret and without the expected signature. */
export const SignatureInvalid = defineError('E_SIGNATURE_INVALID', 401, 'The signature does not fit')

/** One error of an input: its path (`metadata.plan`) and the reason. */
export interface InputError {
  readonly path: string
  readonly message: string
}

export const invalid = (errors: readonly InputError[]): TenancyError =>
  InvalidRequest(errors.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; '), {
    extras: { errors },
  })
