/** What the storage says when something is wrong, told apart: not there, unavailable for now, or not as it was set up. */
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

/** There is no object of that name; a bucket that is not there is another matter. */
export const isNoSuchKey = (error: unknown): boolean =>
  ['NoSuchKey', 'NotFound'].includes((error as ErrorDetails)?.name ?? '')

export const isNoSuchUpload = (error: unknown): boolean =>
  isNoSuchKey(error) || (error as ErrorDetails)?.name === 'NoSuchUpload'

export const isNotImplemented = (error: unknown): boolean => statusOf(error) === NOT_IMPLEMENTED

/** What is thrown for it: E_DEPENDENCY_UNAVAILABLE for a server that is unavailable. */
export const toStorageError = (error: unknown): unknown => (isUnavailable(error) ? storageUnavailable(error) : error)

export const withS3Errors = <T>(request: Promise<T>): Promise<T> =>
  request.catch((error) => {
    throw toStorageError(error)
  })

export const storageUnavailable = (cause: unknown) =>
  DependencyUnavailable('The storage of the backups cannot be reached at the moment.', { cause })

export function isUnavailable(error: unknown): boolean {
  const { name = '', code = '', errors } = (error ?? {}) as ErrorDetails
  if (errors?.some(isUnavailable)) return true
  if (isNotImplemented(error)) return false
  const status = statusOf(error)
  return UNAVAILABLE_CODES.has(code) || UNAVAILABLE_NAMES.has(name) || status === TOO_MANY_REQUESTS || status >= 500
}
