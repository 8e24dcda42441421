/**
 * Makes `dist/` from `src/`: JavaScript without comments, its types with them, bundled libraries, and the console for browsers. Files that
 * pages need are copied. Declarations that no entry of the package reaches are removed.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { bundleLibraries } from './build-libraries.ts'

const root = import.meta.dirname
/** In a declaration. Its group is the path without the extension. */
const RELATIVE_IMPORT = /(?:from|import\(|import) ?['"](\.[^'"]+)\.[jt]sx?['"]/g
const vendor = join('http', 'pages', 'vendor')

rmSync(join(root, 'dist'), { recursive: true, force: true })
const compile = (configuration: string, ...options: string[]) =>
  execFileSync(
    process.execPath,
    [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(root, configuration), ...options],
    { stdio: 'inherit' },
  )
compile('tsconfig.build.json', '--removeComments') // also of declarations
compile('tsconfig.build.json', '--declaration', '--emitDeclarationOnly')
compile(join('src', 'console', 'tsconfig.types.json')) // declarations of `tenantry/console`
removeUnreachableDeclarations()
await bundleLibraries(root)
cpSync(join(root, 'src', vendor), join(root, 'dist', vendor), { recursive: true })
execFileSync(
  process.execPath,
  [
    '--conditions=tenantry-source',
    join(root, 'src', 'http', 'console', 'build.ts'),
    join(root, 'dist', 'console'),
    '--replace',
  ],
  { stdio: 'inherit' },
)

function removeUnreachableDeclarations(): void {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const patterns = Object.values<{ types?: string | { default: string } }>(exports).flatMap(({ types }) =>
    typeof types === 'object' ? types.default : (types ?? []),
  )
  const reached = new Set<string>()
  const reach = (file: string): void => {
    if (reached.has(file) || !existsSync(join(root, file))) return // comments also contain imports
    reached.add(file)
    for (const [, path = ''] of readFileSync(join(root, file), 'utf8').matchAll(RELATIVE_IMPORT))
      reach(join(dirname(file), `${path}.d.ts`))
  }
  for (const file of globSync(patterns, { cwd: root })) reach(join(file))
  for (const file of globSync('dist/**/*.d.ts', { cwd: root })) if (!reached.has(join(file))) rmSync(join(root, file))
}
