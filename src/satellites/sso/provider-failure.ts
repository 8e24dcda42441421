/**
 * Classifies failures of an identity provider: for the host in fixed sentences, and for the log. openid-client attaches whole tokens
 * and claims to its errors; only codes and messages are used.
 */
import {
  AuthorizationResponseError,
  ClientError,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'openid-client'
import type { TenancyError } from '../../kernel/base/errors.ts'
import { failed, type Reason, SsoProviderUnavailable } from './errors.ts'

const MAX_LOGGED_CHARACTERS = 500
const RETRY_AFTER_SECONDS = 5
/** A member of a response has another value than required. */
const OTHER_THAN_EXPECTED = 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED'

/** An exchange without a readable response. */
export class IdentityProviderError extends Error {
  /** Whether it may be temporary: no response, or an overloaded server. */
  readonly isPassing: boolean

  constructor(message: string, isPassing: boolean) {
    super(message)
    this.isPassing = isPassing
  }
}

const REASON_OF: Readonly<Record<string, Reason>> = {
  access_denied: 'denied',
  login_required: 'interaction-required',
  interaction_required: 'interaction-required',
  consent_required: 'interaction-required',
  account_selection_required: 'interaction-required',
}

export const unavailable = (): TenancyError =>
  SsoProviderUnavailable('The identity provider is unavailable. Try again.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })

/** Whether the provider caused it; otherwise it is a defect or misconfiguration here. */
export const isOfProvider = (error: unknown): boolean =>
  [
    IdentityProviderError,
    ClientError,
    AuthorizationResponseError,
    ResponseBodyError,
    WWWAuthenticateChallengeError,
  ].some((kind) => error instanceof kind)

/** Whether userinfo has another subject than the ID token. */
export const isOfAnother = (error: unknown): boolean =>
  error instanceof ClientError && error.code === OTHER_THAN_EXPECTED

/** The issuer in a discovery document of another issuer. */
export function otherIssuer(error: unknown): string | undefined {
  if (!isOfAnother(error)) return undefined
  const causes = chainOf(error).map(({ cause }) => cause as { body?: { issuer?: unknown } } | undefined)
  const issuer = causes.find((cause) => cause?.body !== undefined)?.body?.issuer
  return typeof issuer === 'string' ? issuer : ''
}

/** The error of the login. */
export function rejectionOf(error: unknown): TenancyError {
  for (const one of chainOf(error)) {
    if (one instanceof IdentityProviderError) return one.isPassing ? unavailable() : failed('answer')
    if (one instanceof AuthorizationResponseError) return failed(REASON_OF[one.error] ?? 'provider-error')
    if (one instanceof ResponseBodyError) return failed('provider-error')
  }
  return failed('answer')
}

/** Message for the log. Of the provider's message only the error code, because its description may name people. */
export function errorMessageOf(error: unknown): string {
  const words = chainOf(error).map((one) => (isErrorResponse(one) ? `${one.message} (${one.error})` : one.message))
  return words.join(': ').slice(0, MAX_LOGGED_CHARACTERS)
}

/** The provider's description of an error, for the debug log. */
export const descriptionOf = (error: unknown): string | undefined =>
  chainOf(error).find(isErrorResponse)?.error_description?.slice(0, MAX_LOGGED_CHARACTERS)

const isErrorResponse = (error: unknown): error is AuthorizationResponseError | ResponseBodyError =>
  error instanceof AuthorizationResponseError || error instanceof ResponseBodyError

function chainOf(error: unknown): Error[] {
  const chain: Error[] = []
  for (let one = error; one instanceof Error && !chain.includes(one); one = one.cause) chain.push(one)
  return chain
}
