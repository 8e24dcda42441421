/** Makes `dist/` from `src/`: JavaScript and its types, and the console for browsers. Files that pages need are copied. */
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const root = import.meta.dirname
const vendor = join('http', 'pages', 'vendor')

rmSync(join(root, 'dist'), { recursive: true, force: true })
const compile = (configuration: string) =>
  execFileSync(
    process.execPath,
    [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(root, configuration)],
    {
      stdio: 'inherit',
    },
  )
compile('tsconfig.build.json')
compile(join('src', 'console', 'tsconfig.types.json')) // declarations of `tenantry/console`
cpSync(join(root, 'src', vendor), join(root, 'dist', vendor), { recursive: true })
execFileSync(
  process.execPath,
  [
    '--conditions=tenantry-source',
    join(root, 'src', 'http', 'console', 'build.ts'),
    join(root, 'dist', 'console'),
    '--published',
  ],
  { stdio: 'inherit' },
)
