/**
 * Finds and reads the file of an installation: its definition (`tenancy.ts`), or a configuration of the service.
 *
 *   --app, --config ─► TENANTRY_APP, TENANTRY_CONFIG ─► "tenantry".app of the nearest package.json ─► tenantry.config.{ts,js,json}
 */
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const FILES = ['tenantry.config.ts', 'tenantry.config.js', 'tenantry.config.json']

type Environment = Readonly<Record<string, string | undefined>>

/** Content of a file, or of a definition in code. */
export interface Source {
  readonly content: unknown
  /** Absent: the configuration is in code, or there is no file. */
  readonly path?: string | undefined
  /** Directory of relative paths. */
  readonly base: string
  /** Whether it is a definition; otherwise it configures the service, which enables all built-in satellites and backups. */
  readonly isDefinition: boolean
  /** Why the file cannot be read. */
  readonly fault?: string | undefined
}

/** A file may exist or not. Undefined: the installation has none. @param given value of `--app` */
export const appPath = (directory: string, given: string | undefined, env: Environment): string | undefined =>
  locate(directory, given, env).path

/** Imports the file of the installation, if there is one. Starts nothing. A running tenancy is stopped, and a fault. */
export async function findApp(directory: string, given: string | undefined, env: Environment): Promise<Source> {
  const { path, fault } = locate(directory, given, env)
  if (path !== undefined && fault === undefined) return readApp(path, directory)
  return { content: {}, path, base: directory, isDefinition: false, fault }
}

type Located = Pick<Source, 'path' | 'fault'>

function locate(directory: string, given: string | undefined, env: Environment): Located {
  const named = given ?? (env.TENANTRY_APP || env.TENANTRY_CONFIG || undefined)
  if (named !== undefined) return { path: resolve(directory, named) }
  return ofPackage(directory) ?? { path: FILES.map((name) => resolve(directory, name)).find(existsSync) }
}

/** Errors of variables that name different files. */
export function appFaults({ TENANTRY_APP: app, TENANTRY_CONFIG: config }: Environment): string[] {
  if (!app || !config || resolve(app) === resolve(config)) return []
  return ['TENANTRY_APP and TENANTRY_CONFIG name different files: remove one of them']
}

/** `"tenantry": { "app": "./src/tenancy.ts" }` of the nearest package.json. Undefined: it names no file. */
function ofPackage(directory: string): Located | undefined {
  const file = join(directory, 'package.json')
  if (!existsSync(file)) return dirname(directory) === directory ? undefined : ofPackage(dirname(directory))
  try {
    const app = parseJson(readFileSync(file, 'utf8'))?.tenantry?.app
    if (app === undefined) return undefined
    if (typeof app === 'string') return { path: resolve(directory, app) }
    return { path: file, fault: 'tenantry.app: must be a path such as ./src/tenancy.ts' }
  } catch (error) {
    return { path: file, fault: (error as Error).message }
  }
}

/** The message of JSON.parse quotes the text beside the fault, which may be a secret. */
function parseJson(text: string): any {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, '')) // npm accepts a byte order mark
  } catch (error) {
    const [place = ''] = (error as Error).message.match(/ \(line \d+ column \d+\)$/) ?? []
    throw new Error(`not valid JSON${place}`)
  }
}

/** @param directory base of a definition without one, as in the program that starts it */
async function readApp(path: string, directory: string): Promise<Source> {
  const source = { content: {}, path, base: dirname(path), isDefinition: false }
  if (!existsSync(path)) return { ...source, fault: 'file not found' }
  try {
    if (path.endsWith('.json')) return { ...source, content: parseJson(await readFile(path, 'utf8')) }
    const loaded = await import(pathToFileURL(path).href)
    const exported = await (loaded.default?.__esModule ? loaded.default.default : loaded.default) // compiled to CommonJS
    if (isRunning(exported)) {
      await exported.stop()
      return { ...source, fault: 'exports a running tenancy. Export the definition.' }
    }
    if (exported === undefined) return { ...source, fault: 'has no default export. Export the definition as default.' }
    if (!isDefinition(exported)) return { ...source, content: exported }
    return { ...source, content: exported.config, base: exported.directory ?? directory, isDefinition: true }
  } catch (error) {
    return { ...source, fault: importFault(error) }
  }
}

const COMPILE =
  'Compile the definition to JavaScript and name the output (`--app ./dist/tenancy.js`), or move this code to files that it does not import.'

/** Hints for errors of an import, by pattern of `<code> <message>`. Node.js only removes types, and resolves as ECMAScript does. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [/^ERR_UNSUPPORTED_(NODE_MODULES_)?TYPE/, COMPILE],
  [/^ERR_UNKNOWN_FILE_EXTENSION/, COMPILE],
  [/^SyntaxError Invalid or unexpected token/, `If it is a decorator: Node.js does not support decorators. ${COMPILE}`],
  [
    /^SyntaxError .* does not provide an export/,
    'Import types by `import type`. The compiler option `verbatimModuleSyntax` reports them.',
  ],
  [
    /^ERR_MODULE_NOT_FOUND Cannot find package/,
    'Install it. If it is an alias of `paths` in tsconfig.json, use a relative path: Node.js does not read them.',
  ],
  [
    /^ERR_(MODULE_NOT_FOUND|UNSUPPORTED_DIR_IMPORT)/,
    'Imports name files with their extension, as in `./entities.ts`. Or compile the definition and name the output.',
  ],
]

/** For syntax errors of which Node.js gives no place. */
const UNPLACED = 'this file, or a file that it imports, has syntax that Node.js does not support'

/** Message of a failed import with the place, if Node.js gives it, and a hint. */
function importFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { name, message, stack = '' } = error
  const kind = `${(error as NodeJS.ErrnoException).code ?? name} ${message}`
  const [, hint] = HINTS.find(([pattern]) => pattern.test(kind)) ?? []
  const isUnplaced = /^SyntaxError: .*\n +at .*node:internal/.test(stack)
  const place = error instanceof SyntaxError && (isUnplaced ? UNPLACED : placeIn(stack))
  const text = place ? `${place}: ${message}` : message
  return hint ? `${text.replace(/\.$/, '')}. ${hint}` : text
}

/** `/app/entities.ts:3` of the first line of a stack, which has a URL for an ECMAScript module, and a path for CommonJS. */
function placeIn(stack: string): string | undefined {
  const [, file = '', line] = /^(.+):(\d+)\n/.exec(stack) ?? []
  const path = file.startsWith('file:') ? fileURLToPath(file) : file
  return isAbsolute(path) ? `${path}:${line}` : undefined
}

const isRunning = (value: any): value is { stop(): Promise<void> } =>
  typeof value?.stop === 'function' && value.kernel !== undefined

/** Not `instanceof`: the file may have another copy of the package. */
const isDefinition = (value: any): value is { config: unknown; directory: string | undefined } =>
  typeof value?.start === 'function' && value.config !== undefined
