/**
 * Files of the console: those of the package, or from source built at the first request and cached by the hash of the sources.
 *
 *   dist/console/index.json exists ──► read once
 *   otherwise ──► node_modules/.cache/tenantry-console/<hash> ──absent──► a process builds it
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { packedFile } from '../pages/packed-file.ts'
import { type Index, SOURCE, sourceHash } from './sources.ts'

const PUBLISHED = join(SOURCE, 'console')
const CACHE = join(SOURCE, '../node_modules/.cache/tenantry-console')
const BUILD_TIMEOUT_MS = 60_000
/** The sources are compared with the last build at most once in this time. */
const COMPARE_MS = 1_000

export interface Assets {
  readonly folder: string
  readonly index: Index
}

let published: Assets | undefined
let building: { readonly hash: string; readonly comparedAt: number; readonly done: Promise<Assets> } | undefined

/**
 * Rejects if the console cannot be built, as without its development dependencies.
 *
 * @param isPage whether the sources are compared with those of the last build; files belong to the last page
 */
export async function consoleAssets(isPage: boolean): Promise<Assets> {
  if (published) return published
  if (building && (!isPage || performance.now() - building.comparedAt < COMPARE_MS)) return building.done
  if (existsSync(join(PUBLISHED, 'index.json'))) {
    published = read(PUBLISHED)
    return published
  }
  const hash = sourceHash()
  if (building?.hash === hash) {
    building = { ...building, comparedAt: performance.now() }
  } else {
    const done = built(join(CACHE, hash))
    building = { hash, comparedAt: performance.now(), done }
    done.catch(() => {
      building = undefined
    })
  }
  return building.done
}

/** Serves the build in a folder instead, such as one with React's profiler. */
export function serveBuild(folder: string): void {
  published = read(folder)
}

async function built(folder: string): Promise<Assets> {
  if (!existsSync(join(folder, 'index.json'))) {
    const program = join(import.meta.dirname, 'build.ts')
    await promisify(execFile)(process.execPath, ['--conditions=tenantry-source', program, folder], {
      timeout: BUILD_TIMEOUT_MS,
      env: { ...process.env, NODE_OPTIONS: '' },
    })
  }
  return read(folder)
}

const read = (folder: string): Assets => ({
  folder,
  index: JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')),
})

const TYPES: Readonly<Record<string, string>> = { js: 'text/javascript', css: 'text/css' }

export interface AssetFile {
  readonly body: Buffer<ArrayBuffer>
  readonly headers: Record<string, string>
}

/** A file of the console. Its name has a hash, so clients keep it for a year. Undefined if there is none. */
export async function assetFile({ folder }: Assets, name: string, accepted: string): Promise<AssetFile | undefined> {
  if (!/^[\w.-]+-[\w-]{8,}\.(js|css)$/.test(name)) return undefined
  try {
    const { body, headers } = await packedFile(join(folder, name), accepted)
    const type = `${TYPES[name.split('.').at(-1) ?? '']}; charset=utf-8`
    return {
      body,
      headers: { 'content-type': type, 'cache-control': 'public, max-age=31536000, immutable', ...headers },
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
