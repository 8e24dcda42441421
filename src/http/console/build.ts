/**
 * Builds the console with Vite: `node build.ts <folder> [--replace] [--profiling]`. A separate process, so the service never loads the
 * bundler. With `--replace`, a former build is deleted. With `--profiling`, React measures its renders, for tests of them.
 *
 *   entry `main` ─────────┐
 *   one for each module ──┤──► <name>-<hash>.js, one style sheet, each with Brotli (.br) ──► index.json
 *   import map ───────────┘
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Plugin } from 'vite'
import { consoleModules, type Index, SOURCE } from './sources.ts'

const ROOT = dirname(SOURCE)
const require = createRequire(import.meta.url)

/** Entries of the import map: names that modules of hosts import. */
const SHARED: Readonly<Record<string, string>> = {
  react: 'virtual:react',
  'react/jsx-runtime': 'virtual:react/jsx-runtime',
  'tenantry/console': join(SOURCE, 'console/shared/console.ts'),
}

/** Loaded before every screen: few files, which compress better than many. */
const FIRST = [
  { name: 'libraries', test: /node_modules\/(react|react-dom|scheduler|@tanstack|use-sync-external-store)\// },
  {
    name: 'core',
    test: /src\/console\/((api|data|routing|components\/(base|lists))\/(?!column-choices)|(module|components\/(actions|layers|menu|panel|select|slots))\.tsx?$)/,
  },
]

const TENANTS_LIST = 'tenants/console/list/list.tsx'

/** React is CommonJS, so its export names are written here. */
const facades: Plugin = {
  name: 'facades',
  resolveId: (id) => (id.startsWith('virtual:react') ? `\0${id}` : undefined),
  load(id) {
    if (!id.startsWith('\0virtual:react')) return undefined
    const name = id.slice('\0virtual:'.length)
    const names = Object.keys(require(name)).filter((one) => one !== 'default')
    return `import whole from '${name}'\nexport default whole\nexport const { ${names.join(', ')} } = whole\n`
  },
}

/** Names of Tenantry's list operations. */
function lists(): string[] {
  const names = ['commands', 'queries'].flatMap((file) =>
    Object.keys(JSON.parse(readFileSync(join(SOURCE, `console/api/${file}.json`), 'utf8'))),
  )
  return [...new Set(names)].filter((name) => /\.list(All)?$/.test(name))
}

interface BuildOptions {
  readonly isReplacing: boolean
  readonly isProfiling: boolean
}

export async function buildConsole(folder: string, { isReplacing, isProfiling }: BuildOptions): Promise<void> {
  const modules = consoleModules()
  const input = {
    main: join(SOURCE, 'console/start/main.tsx'),
    early: join(SOURCE, 'console/start/early.ts'),
    ...Object.fromEntries(modules.map((file) => [nameOf(file), join(SOURCE, file)])),
    ...Object.fromEntries(Object.entries(SHARED).map(([name, file]) => [name.replaceAll('/', '-'), file])),
  }
  const built = await build({
    root: ROOT,
    base: './',
    configFile: false,
    publicDir: false,
    mode: 'production',
    logLevel: 'error',
    plugins: [facades],
    resolve: { alias: isProfiling ? { 'react-dom/client': 'react-dom/profiling' } : {} },
    define: { 'process.env.NODE_ENV': '"production"', LISTS: JSON.stringify(lists()) },
    oxc: { jsx: { runtime: 'automatic', development: false } },
    build: {
      write: false,
      target: 'esnext',
      cssCodeSplit: false,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      assetsInlineLimit: 0,
      rolldownOptions: {
        input,
        preserveEntrySignatures: 'allow-extension',
        output: {
          entryFileNames: '[name]-[hash].js',
          chunkFileNames: '[name]-[hash].js',
          assetFileNames: '[name]-[hash][extname]',
          codeSplitting: { groups: FIRST, includeDependenciesRecursively: false },
        },
      },
    },
  })
  const { output } = (Array.isArray(built) ? built[0] : built) as Extract<typeof built, { output: unknown }>
  const chunks = output.filter((file) => file.type === 'chunk')
  /** The first screen of most visits. */
  const list = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith(TENANTS_LIST))
  if (!list) throw new Error(`the build has no chunk of ${TENANTS_LIST}`)
  const chunkOf = (name: string) => {
    const found = chunks.find((chunk) => chunk.isEntry && chunk.name === name)
    if (!found) throw new Error(`the build has no entry ${name}`)
    return found
  }
  const main = chunkOf('main')
  const index: Index = {
    main: main.fileName,
    early: chunkOf('early').fileName,
    styles: output.flatMap(({ fileName }) => (fileName.endsWith('.css') ? [fileName] : [])),
    preloads: [...new Set([main, chunkOf('tenants'), list].flatMap(({ fileName, imports }) => [...imports, fileName]))],
    imports: Object.fromEntries(Object.keys(SHARED).map((name) => [name, chunkOf(name.replaceAll('/', '-')).fileName])),
    modules: Object.fromEntries(modules.map((file) => [file, chunkOf(nameOf(file)).fileName])),
  }
  const stage = `${folder}.${process.pid}`
  rmSync(stage, { recursive: true, force: true })
  mkdirSync(stage, { recursive: true })
  for (const file of output) {
    const content = Buffer.from(file.type === 'chunk' ? file.code : file.source)
    const quality = { [constants.BROTLI_PARAM_QUALITY]: 10 }
    writeFileSync(join(stage, `${file.fileName}.br`), brotliCompressSync(content, { params: quality }))
  }
  writeFileSync(join(stage, 'index.json'), `${JSON.stringify(index, undefined, 2)}\n`)
  if (isReplacing) rmSync(folder, { recursive: true, force: true })
  moveTo(stage, folder)
}

/** Complete or absent. Another process may have built the same folder, whose files are in use. */
function moveTo(stage: string, folder: string): void {
  try {
    renameSync(stage, folder)
  } catch {
    rmSync(stage, { recursive: true, force: true }) // another process was first
  }
}

/** `satellites/webhooks/console/index.tsx` is `webhooks`. */
const nameOf = (file: string): string => file.split('/').at(-3) ?? file

if (process.argv[1] === import.meta.filename) {
  process.env.NODE_ENV = 'production' // otherwise Vite resolves development files of libraries
  const [folder = '', ...options] = process.argv.slice(2)
  await buildConsole(folder, {
    isReplacing: options.includes('--replace'),
    isProfiling: options.includes('--profiling'),
  })
}
