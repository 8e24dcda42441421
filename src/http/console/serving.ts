/**
 * Serves the console: its page at `{prefix}/console` and below, and its files. Neither needs a token: they have no data.
 *
 * - Everything that reads or builds files is imported at the first request.
 */
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NotFound } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { pageNonce, securityHeaders } from '../pages/security-headers.ts'
import type { Assets } from './assets.ts'
import type { ConsoleOptions } from './options.ts'

/** Time that a request waits for the build from source, before it shows a page that says so. */
const PATIENCE_MS = 4_000

export interface ServingOptions {
  readonly prefix: string
  readonly options: ConsoleOptions
  /** Files of the modules by the name of their part. */
  readonly modules: ReadonlyMap<string, URL>
  /** Names of the satellites of the host that have operations. */
  readonly hostSatellites: readonly string[]
  readonly log: Logger
}

/** A response without the headers that every response of the API has. */
export interface ConsoleResponse {
  readonly status: number
  readonly body: string | Uint8Array<ArrayBuffer>
  readonly headers: Record<string, string>
}

const htmlResponse = (status: number, body: string, headers: Record<string, string>): ConsoleResponse => ({
  status,
  body,
  headers: { 'content-type': 'text/html; charset=utf-8', ...headers },
})

export class ConsolePages {
  readonly #options: ServingOptions
  readonly #base: string

  constructor(options: ServingOptions) {
    this.#options = options
    this.#base = `${options.prefix}/console`
  }

  /** Undefined for other paths and methods. */
  async respond(request: Request, pathname: string): Promise<ConsoleResponse | undefined> {
    const isBelow = pathname === this.#base || pathname.startsWith(`${this.#base}/`)
    if (!isBelow || (request.method !== 'GET' && request.method !== 'HEAD')) return undefined
    const { consoleAssets, assetFile } = await import('./assets.ts')
    const name = pathname.slice(this.#base.length + 1)
    const isPage = !name.startsWith('assets/')
    const loading = consoleAssets(isPage)
    loading.catch(() => undefined) // also if the page does not wait for it any longer
    if (isPage) return this.#page(loading)
    const accepted = request.headers.get('accept-encoding') ?? ''
    const found = await assetFile(await loading, name.slice('assets/'.length), accepted)
    const host = found ?? (await this.#hostModule(name.slice('assets/'.length)))
    if (!host) throw NotFound('No file of the console has this name.')
    return { status: 200, body: new Uint8Array(host.body), headers: host.headers }
  }

  async #page(loading: Promise<Assets>): Promise<ConsoleResponse> {
    const { shellPage, messagePage } = await import('./shell-page.ts')
    const nonce = pageNonce()
    const headers = securityHeaders('console', nonce)
    const timeout = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), PATIENCE_MS).unref())
    try {
      const assets = await Promise.race([loading, timeout])
      if (!assets) return htmlResponse(200, messagePage(nonce, 'The console is being built…', true), headers)
      const { prefix, options, hostSatellites } = this.#options
      const { name = 'Tenantry', logo, accent, links = [], sampleData } = options
      const hostModules = [...this.#options.modules].flatMap(([one, url]) => (isBuilt(url) ? [] : [one]))
      const given = { ...(logo ? { logo } : {}), ...(sampleData ? { sampleData } : {}) }
      const settings = { prefix, name, ...given, links, modules: this.#moduleUrls(assets), hostModules, hostSatellites }
      return htmlResponse(200, shellPage({ prefix, nonce, index: assets.index, settings, accent }), headers)
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the console could not be built')
      const message = 'The console is not built. Run "npm run build", or install the development dependencies.'
      return htmlResponse(503, messagePage(nonce, message, false), headers)
    }
  }

  #moduleUrls({ index }: Assets): Record<string, string> {
    const urls = [...this.#options.modules].map(([name, url]) => {
      const built = index.modules[keyOf(url)]
      return [name, `${this.#base}/assets/${built ?? hostFile(name)}`]
    })
    return Object.fromEntries(urls)
  }

  /** The module of a host's satellite: served as it is. */
  async #hostModule(file: string) {
    const [, url] = [...this.#options.modules].find(([name]) => hostFile(name) === file) ?? []
    if (!url) return undefined
    const { readFile } = await import('node:fs/promises')
    const headers = { 'content-type': 'text/javascript; charset=utf-8', 'cache-control': 'no-cache' }
    return { body: await readFile(url), headers }
  }
}

/** Whether the build contains a module. */
export const isBuilt = (url: URL): boolean => /^(tenants|satellites\/[^/]+)\/console\//.test(keyOf(url))

const hostFile = (name: string): string => `host-${name}.js`

/** Path of a module's file below `src`, in the source and in the package. */
const keyOf = (url: URL): string =>
  url.protocol === 'file:'
    ? relative(fileURLToPath(new URL('../..', import.meta.url)), fileURLToPath(url)).replaceAll('\\', '/')
    : ''
