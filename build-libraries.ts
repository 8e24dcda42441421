/**
 * Bundles libraries into `dist/vendor/`: one file for each specifier that a module of `dist/` imports, which exports the imported names
 * only. In the modules, the specifiers change and nothing else. Reasons and list: docs/decisions/dependencies.md.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { type OutputChunk, rolldown } from 'rolldown'
import { parseSync } from 'rolldown/utils'

/** Neither public types nor values of hosts are of these. `hono/request` stays: its errors must be those of the host's Hono. */
const BUNDLED = [
  '@clack/prompts',
  '@hono/node-server',
  '@hono/node-server/utils/response',
  'cockatiel',
  'commander',
  'fast-string-truncated-width',
  'hono',
  'ipaddr.js',
  'lru-cache',
  'modern-tar',
  'openid-client',
  'pg-boss',
  'picocolors',
  'undici',
  'xxhash-wasm',
  'zod-openapi',
]
/** The only import of undici is its client. The index also loads caches, agents and fetch: 0.5 MB, and 9 MB of memory. */
const UNDICI = "export { default as Client } from 'undici/lib/dispatcher/client.js'"
/** Files for browsers. */
const PAGES = ['console/**', 'http/pages/vendor/**']
const ENTRY = 'entry:'

export async function bundleLibraries(root: string): Promise<void> {
  const dist = join(root, 'dist')
  const vendor = join(dist, 'vendor')
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const kept = Object.keys(dependencies)
  const exports = redirectImports(dist, vendor)
  const bundle = await rolldown({
    cwd: root,
    platform: 'node',
    input: Object.fromEntries([...exports.keys()].map((specifier) => [fileOf(specifier), ENTRY + specifier])),
    external: (id) => kept.some((name) => id === name || id.startsWith(`${name}/`)),
    plugins: [
      {
        name: 'entries',
        resolveId: (id) => (id.startsWith(ENTRY) ? join(root, id) : undefined), // in a folder that has node_modules
        load: (id) => (id.endsWith(`${ENTRY}undici`) ? UNDICI : exports.get(id.split(ENTRY)[1] ?? '')?.join('\n')),
      },
    ],
  })
  const { output } = await bundle.write({
    dir: vendor,
    entryFileNames: '[name]',
    chunkFileNames: 'shared/[name].js',
    minifyInternalExports: false,
    comments: false,
  })
  await bundle.close()
  writeOrigins(
    vendor,
    output.filter((file) => file.type === 'chunk'),
  )
}

/** Changes the specifiers in the modules of `dist`. Returns the exports that they need, by specifier. */
function redirectImports(dist: string, vendor: string): Map<string, string[]> {
  const exports = new Map<string, string[]>()
  for (const file of globSync('**/*.js', { cwd: dist, exclude: PAGES })) {
    const path = join(dist, file)
    let code = readFileSync(path, 'utf8')
    const { staticImports, dynamicImports } = parseSync(file, code).module
    const imports = [...staticImports, ...dynamicImports.map((one) => ({ ...one, entries: undefined }))]
    for (const { moduleRequest, entries } of imports.toSorted((one, other) => other.start - one.start)) {
      const specifier = code.slice(moduleRequest.start + 1, moduleRequest.end - 1)
      if (!BUNDLED.includes(specifier)) continue
      const from = `from '${specifier}'`
      const names = entries?.map(({ importName: { kind, name } }) => (kind === 'Default' ? 'default' : name))
      const lines = names?.map((name) => `export { ${name} } ${from}`) ?? [`export * ${from}`]
      exports.set(specifier, [...new Set([...(exports.get(specifier) ?? []), ...lines])])
      const target = relative(dirname(path), join(vendor, fileOf(specifier)))
      code = `${code.slice(0, moduleRequest.start)}'${target}'${code.slice(moduleRequest.end)}`
    }
    writeFileSync(path, code)
  }
  return exports
}

const fileOf = (specifier: string): string => `${specifier.replace(/^@|\.js$/g, '').replaceAll('/', '-')}.js`

/** The licences of all packages with code in the chunks, and their versions as CycloneDX, which scanners read. */
function writeOrigins(vendor: string, chunks: readonly OutputChunk[]): void {
  const modules = chunks.flatMap(({ modules }) => Object.entries(modules))
  const folders = modules.flatMap(([id, { renderedLength }]) =>
    renderedLength > 0 ? (/^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []) : [],
  )
  const texts: string[] = []
  const components: object[] = []
  for (const folder of [...new Set(folders)].toSorted()) {
    const origin = originOf(folder)
    texts.push(...origin.texts)
    components.push(origin.component)
  }
  writeFileSync(join(vendor, 'LICENSES.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`))
  const document = { bomFormat: 'CycloneDX', specVersion: '1.6', version: 1, components }
  writeFileSync(join(vendor, 'sbom.cdx.json'), `${JSON.stringify(document, undefined, 2)}\n`)
}

interface Origin {
  readonly texts: readonly string[]
  readonly component: object
}

/** Licences of a package and of its parts, such as undici/lib/milo, and its component in CycloneDX. */
export function originOf(folder: string): Origin {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = globSync('**/{LICENSE,license}{,.md}', { cwd: folder, exclude: ['**/node_modules/**'] })
  if (files.length === 0) throw new Error(`the package ${name} contains no licence`)
  const texts = files
    .toSorted((one, other) => one.length - other.length)
    .map((file) => {
      const title = file.includes('/') ? `${name} ${version}, ${dirname(file)}` : `${name} ${version} (${license})`
      return `${title}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
    })
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const licenses = [license.includes(' ') ? { expression: license } : { license: { id: license } }]
  return { texts, component: { type: 'library', 'bom-ref': purl, name, version, purl, licenses } }
}
