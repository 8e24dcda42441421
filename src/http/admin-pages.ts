/** Serves the pages of the admin API: sign-in page, session, console, OpenAPI document and its interactive page. */
import type { Hono } from 'hono'
import { z } from 'zod'
import type { Grant } from '../kernel/base/context.ts'
import { invalid } from '../kernel/base/errors.ts'
import type { Authentication } from './authentication.ts'
import type { HostOperation } from './console/host-operations.ts'
import type { ConsolePages } from './console/serving.ts'
import { readBody, requireJson } from './input.ts'
import { parseJson } from './json.ts'
import { apiPage, apiPageAsset } from './pages/api-page.ts'
import { type Page, pageNonce, securityHeaders } from './pages/security-headers.ts'
import { signInPage } from './pages/sign-in-page.ts'
import { withoutSlash } from './prefix.ts'
import { Forbidden, Unauthorized } from './problem.ts'
import { respond, respondHtml, respondJson } from './respond.ts'
import { isSameOrigin, isSecure } from './sessions.ts'
import type { Identity } from './tokens.ts'

const TITLE = 'Tenantry admin API'
/** Maximum of a body without a token: larger than any credential. */
const MAX_CREDENTIAL_BYTES = 4 * 1024

const SignIn = z.union([z.strictObject({ token: z.string() }), z.strictObject({ code: z.string() })])

export interface AdminPagesOptions {
  readonly prefix: string
  readonly authentication: Authentication
  /** The OpenAPI document as JSON. */
  readonly document: string
  /** Names of operations of which a token must permit one to read the document: GET operations without a scope. */
  readonly readable: readonly string[]
  /** Undefined: the process does not serve the console. */
  readonly console: ConsolePages | undefined
  /** Operations of the host's satellites that a grant permits. */
  readonly hostOperations: (grant: Grant) => readonly HostOperation[]
}

export class AdminPages {
  readonly #options: AdminPagesOptions

  constructor(options: AdminPagesOptions) {
    this.#options = options
  }

  /** The two paths that need no token. */
  get openPaths(): readonly string[] {
    const { prefix } = this.#options
    return [`${prefix}/sign-in`, `${prefix}/session`]
  }

  /** Serves the paths that need no token: sign-in and the console. Undefined for every other request. */
  async withoutToken(request: Request, pathname: string): Promise<Response | undefined> {
    const { prefix, console } = this.#options
    const path = withoutSlash(pathname)
    if (console && path === prefix && wantsPage(request)) {
      return respond(302, null, { location: `${prefix}/console` })
    }
    const served = await console?.respond(request, path)
    if (served) return respond(served.status, served.body, served.headers)
    if (path === `${prefix}/sign-in` && (request.method === 'GET' || request.method === 'HEAD'))
      return this.#signInPage(200)
    if (path === `${prefix}/session` && request.method === 'POST') return this.#signIn(request)
    return undefined
  }

  /** The sign-in page, as the response to a navigation without a session. */
  notSignedIn(request: Request): Response | undefined {
    return wantsPage(request) ? this.#signInPage(401) : undefined
  }

  mount(app: Hono<any>): void {
    const { prefix, document, readable, authentication, console, hostOperations } = this.#options
    const { sessions } = authentication
    const readers = ({ name, grant }: Identity) => {
      if (grant.tenants === null && readable.some((operation) => grant.operations.has(operation))) return
      throw Forbidden(`Token "${name}" may not read the API description.`)
    }
    app.get(`${prefix}/openapi.json`, (c) => {
      readers(c.env.identity)
      return respond(200, document, { 'content-type': 'application/json' })
    })
    app.get(`${prefix}/openapi`, (c) => {
      readers(c.env.identity)
      return this.#page('api', 200, (nonce) => apiPage({ prefix, nonce, title: TITLE }))
    })
    app.get(`${prefix}/openapi/reference.js`, async (c) => {
      const { body, etag, headers } = await apiPageAsset(c.req.header('accept-encoding') ?? '')
      if (c.req.header('if-none-match') === etag) return respond(304, null, headers)
      return respond(200, new Uint8Array(body), headers)
    })
    if (console) {
      app.get(`${prefix}/session/operations`, (c) => respondJson(200, { data: hostOperations(c.env.identity.grant) }))
    }
    app.delete(`${prefix}/session`, async (c) => {
      const close = () => sessions.close(c.req.raw, isSecure(c.req.raw))
      return respond(204, null, { 'set-cookie': await c.env.deadline.run(close) })
    })
  }

  async #signIn(request: Request): Promise<Response> {
    if (request.headers.has('origin') && !isSameOrigin(request)) {
      throw Forbidden('A sign-in request must come from a page of this origin.')
    }
    requireJson(request)
    const { sessions, failedSignIns } = this.#options.authentication
    const { data } = SignIn.safeParse(parseJson(await readBody(request, MAX_CREDENTIAL_BYTES)))
    if (!data) throw invalid([{ path: '', message: 'send { "token": "…" } or { "code": "…" }' }])
    const identity = await ('token' in data
      ? this.#options.authentication.identifyToken(data.token)
      : sessions.redeemCode(data.code))
    if (!identity) await failedSignIns.count()
    const opened = identity && (await sessions.open(identity, isSecure(request)))
    if (!identity || !opened) {
      throw Unauthorized(
        'token' in data
          ? 'This is not an admin token.'
          : 'The code was already used or has expired; it is valid for ten minutes.',
      )
    }
    const { cookie, session } = opened
    const { name, grant } = identity
    const signedIn = { id: session.id, name, may: grant.bounds[0], expiresAt: session.expiresAt.toISOString() }
    return respondJson(200, signedIn, { 'set-cookie': cookie })
  }

  #signInPage(status: number): Response {
    const { prefix, console } = this.#options
    const home = `${prefix}/${console ? 'console' : 'openapi'}`
    return this.#page('sign-in', status, (nonce) => signInPage({ prefix, nonce, home }))
  }

  #page(page: Page, status: number, html: (nonce: string) => string): Response {
    const nonce = pageNonce()
    return respondHtml(status, html(nonce), securityHeaders(page, nonce))
  }
}

const wantsPage = ({ method, headers }: Request): boolean =>
  method === 'GET' && (headers.get('accept') ?? '').includes('text/html')
