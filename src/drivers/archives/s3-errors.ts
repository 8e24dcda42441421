/** Classifies errors of S3-compatible storage: object not found, storage unavailable, or any other error. */
import { DependencyUnavailable } from '../../kernel/base/errors.ts'

const UNAVAILABLE_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EPIPE',
  'ETIMEDOUT',
])
const UNAVAILABLE_NAMES = new Set(['TimeoutError', 'RequestTimeout', 'SlowDown', 'ServiceUnavailable', 'InternalError'])
const TOO_MANY_REQUESTS = 429
const NOT_IMPLEMENTED = 501

interface ErrorDetails {
  readonly name?: string
  readonly code?: string
  readonly errors?: readonly unknown[]
  readonly $metadata?: { readonly httpStatusCode?: number }
}

export const statusOf = (error: unknown): number => (error as ErrorDetails)?.$metadata?.httpStatusCode ?? 0

/** Whether the object does not exist. A missing bucket is a different error. */
export const isNoSuchKey = (error: unknown): boolean =>
  ['NoSuchKey', 'NotFound'].includes((error as ErrorDetails)?.name ?? '')

export const isNoSuchUpload = (error: unknown): boolean =>
  isNoSuchKey(error) || (error as ErrorDetails)?.name === 'NoSuchUpload'

export const isNotImplemented = (error: unknown): boolean => statusOf(error) === NOT_IMPLEMENTED

/** Returns `E_DEPENDENCY_UNAVAILABLE` for unavailable storage, and any other error unchanged. */
export const toStorageError = (error: unknown): unknown => (isUnavailable(error) ? storageUnavailable(error) : error)

export const withS3Errors = <T>(request: Promise<T>): Promise<T> =>
  request.catch((error) => {
    throw toStorageError(error)
  })

export const storageUnavailable = (cause: unknown) =>
  DependencyUnavailable('Backup storage cannot be reached at the moment. Try again.', { cause })

export function isUnavailable(error: unknown): boolean {
  const { name = '', code = '', errors } = (error ?? {}) as ErrorDetails
  if (errors?.some(isUnavailable)) return true
  if (isNotImplemented(error)) return false
  const status = statusOf(error)
  return UNAVAILABLE_CODES.has(code) || UNAVAILABLE_NAMES.has(name) || status === TOO_MANY_REQUESTS || status >= 500
}
