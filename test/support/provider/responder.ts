/**
 * Executes a request: checks key and version, the idempotency key, then calls the endpoint. An endpoint is synchronous,
 * so requests do not interleave.
 *
 * A POST with an `Idempotency-Key` is executed once: equal parameters get the first response again for 24 hours, other
 * parameters are rejected, and before the first response is sent the status is 409. Responses of rejected requests are
 * not kept.
 */
import { accountRoutes } from './account-routes.ts'
import { catalogRoutes } from './catalog.ts'
import { checkoutRoutes } from './checkout.ts'
import { customerRoutes } from './customers.ts'
import { type ErrorBody, invalid, ProviderError } from './errors.ts'
import { expand } from './expand.ts'
import { type Params, texts } from './form.ts'
import { invoiceRoutes } from './invoices/routes.ts'
import { meterRoutes } from './meters.ts'
import type { Route } from './routes.ts'
import { AUTOMATIC, DAY_SECONDS, type State, snapshot } from './state.ts'
import { subscriptionRoutes } from './subscriptions/routes.ts'

export interface ProviderRequest {
  readonly id: string
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly params: Params
  readonly key: string | undefined
  readonly apiVersion: string | undefined
  readonly idempotencyKey: string | undefined
}

export interface ProviderResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}

interface Kept {
  readonly parameters: string
  readonly at: number
  readonly response: ProviderResponse
}

export interface Responder {
  respond(request: ProviderRequest): ProviderResponse
  /** Idempotency keys whose first response has not been sent. */
  readonly inFlight: Set<string>
}

const ROUTES: readonly Route[] = [
  ...accountRoutes,
  ...catalogRoutes,
  ...checkoutRoutes,
  ...customerRoutes,
  ...invoiceRoutes,
  ...meterRoutes,
  ...subscriptionRoutes,
]

export function createResponder(state: State, apiVersion: string): Responder {
  const kept = new Map<string, Kept>()
  const inFlight = new Set<string>()

  const once = (request: ProviderRequest): ProviderResponse => {
    const { idempotencyKey } = request
    if (request.method !== 'POST' || idempotencyKey === undefined) return execute(state, request)
    const parameters = JSON.stringify([request.path, request.params])
    const before = kept.get(idempotencyKey)
    if (before && state.now - before.at < DAY_SECONDS) {
      if (before.parameters !== parameters) throw otherParameters(idempotencyKey)
      if (inFlight.has(idempotencyKey)) throw keyInUse()
      return { ...before.response, headers: { ...before.response.headers, 'idempotent-replayed': 'true' } }
    }
    const response = execute(state, request)
    if (response.status === 200 || response.status === 402)
      kept.set(idempotencyKey, { parameters, at: state.now, response })
    return response
  }

  return {
    inFlight,
    respond(request) {
      try {
        check(state, request, apiVersion)
        return once(request)
      } catch (error) {
        return errorResponse(error)
      }
    },
  }
}

function check(state: State, { key, apiVersion }: ProviderRequest, spoken: string): void {
  if (key === undefined || key === '') {
    throw new ProviderError(401, {
      type: 'invalid_request_error',
      message: 'You did not provide an API key.',
    })
  }
  if (key !== state.settings.apiKey) {
    const hidden = `${key.slice(0, 8)}${'*'.repeat(8)}${key.slice(-4)}`
    throw new ProviderError(401, { type: 'invalid_request_error', message: `Invalid API Key provided: ${hidden}` })
  }
  if (apiVersion === undefined) throw invalid(`Send Stripe-Version: ${spoken}; this provider has no default.`)
  if (apiVersion !== spoken) throw invalid(`Invalid Stripe API version: ${apiVersion}; this provider is ${spoken}.`)
}

function execute(state: State, request: ProviderRequest): ProviderResponse {
  const { method, path, params } = request
  const found = routed(method, path)
  if (!found) throw unknownUrl(method, path)
  const { route, id } = found
  const unknown = Object.keys(params).find((name) => name !== 'expand' && !route.takes.includes(name))
  if (unknown !== undefined) throw invalid(`Received unknown parameter: ${unknown}`, unknown, 'parameter_unknown')
  const isChange = method !== 'GET'
  state.cause = isChange ? { id: request.id, idempotency_key: request.idempotencyKey ?? null } : AUTOMATIC
  try {
    const body = snapshot(route.handle(state, params, id))
    expand(state, body, texts(params, 'expand'))
    return { status: 200, headers: {}, body }
  } catch (error) {
    return errorResponse(error)
  } finally {
    state.cause = AUTOMATIC
  }
}

function routed(method: string, path: string): { readonly route: Route; readonly id: string } | undefined {
  const parts = path.split('/')
  for (const route of ROUTES) {
    const wanted = route.path.split('/')
    const isMatch =
      route.method === method &&
      wanted.length === parts.length &&
      wanted.every((part, index) => part === ':id' || part === parts[index])
    if (isMatch) return { route, id: decodeURIComponent(parts[wanted.indexOf(':id')] ?? '') }
  }
  return undefined
}

function errorResponse(error: unknown): ProviderResponse {
  if (!(error instanceof ProviderError)) throw error
  return { status: error.status, headers: error.headers, body: { error: error.body satisfies ErrorBody } }
}

function unknownUrl(method: string, path: string): ProviderError {
  return new ProviderError(404, {
    type: 'invalid_request_error',
    message: `Unrecognized request URL (${method}: ${path}).`,
  })
}

function otherParameters(key: string): ProviderError {
  return new ProviderError(400, {
    type: 'idempotency_error',
    message: `Keys for idempotent requests can only be used with the same parameters they were first used with: '${key}'.`,
  })
}

function keyInUse(): ProviderError {
  return new ProviderError(409, {
    type: 'idempotency_error',
    code: 'idempotency_key_in_use',
    message: 'There is currently another in-progress request using this idempotency key.',
  })
}
