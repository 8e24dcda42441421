/** Checks that documents name existing files, folders and headings, and that lists of contents are complete. */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const DECISIONS = 'docs/decisions'
/** Source file or folder in backticks or in a code block; `*` matches one name. */
const PATH = /(?<=^|[\s(`])((?:[\w.*-]+\/)*[\w.*-]+(?:\.ts|\/))(?=$|[\s),;:`])/gm

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

const files = globSync(['{src,test,docs}', '{src,test,docs}/**/*'], { cwd: ROOT, exclude: ['**/node_modules'] }).map(
  (file) => `/${file.replaceAll('\\', '/')}`,
)
const decisions = readdirSync(join(ROOT, DECISIONS)).filter((file) => file.endsWith('.md') && file !== 'README.md')

/** @param path end of a path below src, test or docs */
function exists(path: string): boolean {
  const pattern = path.replace(/\/$/, '').replaceAll('.', '\\.').replaceAll('*', '[^/]*')
  const end = new RegExp(`/${pattern}$`)
  return files.some((file) => end.test(file))
}

/** Text of a page in backticks, and the lines of its code blocks. */
const codeOf = (page: string): string => [...page.matchAll(/^```\n[\s\S]*?^```|`[^`\n]+`/gm)].map(String).join('\n')

test.each(['ARCHITECTURE.md', ...readdirSync(join(ROOT, DECISIONS)).map((file) => `${DECISIONS}/${file}`)])(
  '%s names only files and folders that exist',
  (page) => {
    const missing = [...codeOf(textOf(page)).matchAll(PATH)]
      .map(([, path = '']) => path)
      .filter((path) => !exists(path))
    expect(missing).toEqual([])
  },
)

test('the README of docs/decisions links every page once, and no other', () => {
  const linked = [...textOf(`${DECISIONS}/README.md`).matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, page]) => page)
  expect(linked.toSorted()).toEqual(decisions.toSorted())
})

test.each(decisions)('%s has the sections of a decision', (page) => {
  const parts = [...textOf(`${DECISIONS}/${page}`).matchAll(/^\*\*(\w+)\.\*\*/gm)].map(([, part]) => part)
  expect(parts).toEqual(['Context', 'Decision', 'Consequences'])
})

describe('links', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...globSync('docs/**/*.md', { cwd: ROOT }),
  ]
  const linksOf = (page: string): string[] =>
    [...textOf(page).matchAll(/\]\((?!\w+:)([^)\s#]*)(#[^)\s]*)?\)/g)].map(
      ([, path = '', anchor = '']) => path + anchor,
    )
  /** Anchor of a heading on GitHub. */
  const anchorsOf = (page: string): string[] =>
    [...textOf(page).matchAll(/^#+ (.*)$/gm)].map(
      ([, heading = '']) =>
        `#${heading
          .toLowerCase()
          .replace(/[^\p{L}\p{N}_ -]/gu, '')
          .replaceAll(' ', '-')}`,
    )

  test.each(pages)('%s links only files and headings that exist', (page) => {
    const broken = linksOf(page).filter((link) => {
      const [path = '', anchor] = link.split('#')
      const target = path ? join(dirname(page), path) : page
      if (!existsSync(join(ROOT, target))) return true
      return anchor !== undefined && !anchorsOf(target).includes(`#${anchor}`)
    })
    expect(broken).toEqual([])
  })

  test('README links every guide and has at most 150 lines', () => {
    const linked = new Set(linksOf('README.md'))
    expect(globSync('docs/*.md', { cwd: ROOT }).filter((guide) => !linked.has(guide))).toEqual([])
    expect(textOf('README.md').split('\n').length).toBeLessThanOrEqual(151)
  })
})

test('each definition of the README, the guides and the examples sets the critical check of the backoffice', () => {
  const setUps = ['README.md', ...globSync(['docs/*.md', 'examples/**/*.ts'], { cwd: ROOT })].flatMap((file) =>
    [...textOf(file).matchAll(/(?:create|define)Tenancy\((?:\{\n|\n)[\s\S]*?^ *\}?\)$/gm)].map(([text]) => ({
      file,
      text,
    })),
  )
  expect(setUps.length).toBeGreaterThan(15)
  const without = setUps.filter(({ text }) => !text.includes("health: { critical: ['backoffice'] }"))
  expect(without.map(({ file }) => file)).toEqual([])
})

describe('source tree in ARCHITECTURE.md', () => {
  const [, tree = ''] = /## Source tree\n+```\n([\s\S]*?)```/.exec(textOf('ARCHITECTURE.md')) ?? []
  /** An indented line continues the previous entry. */
  const entries = [...tree.matchAll(/^(\S+)(.*(?:\n .*)*)/gm)].map(([, path = '', text = '']) => ({ path, text }))

  test('each entry of the source tree exists', () => {
    const paths = globSync('**/*', { cwd: join(ROOT, 'src') }).map((path) => path.replaceAll('\\', '/'))
    expect(entries.length).toBeGreaterThan(40)
    expect(entries.map(({ path }) => path.replace(/\/$/, '')).filter((path) => !paths.includes(path))).toEqual([])
  })

  test('each folder of src is in the source tree; folders of screens have one entry together', () => {
    const exclude = ['**/*.test.ts', '**/*.fixture.ts', 'tenants/console/**', 'satellites/*/console/**']
    const sources = globSync('**/*.ts', { cwd: join(ROOT, 'src'), exclude })
    const folders = new Set(sources.map((file) => `${dirname(file.replaceAll('\\', '/'))}/`))
    folders.delete('./')
    const isNamed = (folder: string) =>
      entries.some(({ path, text }) => {
        if (path.startsWith(folder)) return true
        return folder.startsWith(path) && text.includes(` ${folder.slice(path.length)}`)
      })
    expect([...folders].filter((folder) => !isNamed(folder))).toEqual([])
  })
})
