/** The command palette, `Ctrl K`: recent objects, search over all tenants, pages, commands, error codes, settings. */

import { useEffect, useMemo, useState } from 'react'
import { Palette as List } from '../components/palette-list.tsx'
import { useStore } from '../data/store.ts'
import { focusNewHeading } from '../routing/focus.ts'
import { goTo } from '../routing/router.tsx'
import { paletteStore } from './keys.ts'
import type { Found } from './match.ts'
import { codeGroup, type Group, localGroups, remoteGroups } from './sources.ts'
import { text } from './text.ts'

const DELAY_MS = 100
const NO_GROUPS: readonly Group[] = []

/** @param settings entries of the shell */
export function Palette({ settings }: { settings: readonly Found[] }) {
  const isOpen = useStore(paletteStore)
  return isOpen ? <OpenPalette settings={settings} /> : null
}

function OpenPalette({ settings }: { settings: readonly Found[] }) {
  const [query, setQuery] = useState('')
  const [remote, setRemote] = useState<{ readonly query: string; readonly groups: readonly Group[] }>()
  useEffect(() => {
    const wanted = query.trim()
    const ending = new AbortController()
    const timer = setTimeout(async () => {
      const found = await Promise.all([remoteGroups(wanted, ending.signal), codeGroup(wanted)]).catch(() => [])
      if (!ending.signal.aborted) setRemote({ query: wanted, groups: found.flat() })
    }, DELAY_MS)
    return () => {
      clearTimeout(timer)
      ending.abort()
    }
  }, [query])
  const isCurrent = remote?.query === query.trim()
  const groups = useMemo(
    () => merged([...(remote?.groups ?? NO_GROUPS), ...localGroups(query.trim(), settings)]),
    [remote, query, settings],
  )
  useEffect(() => () => void requestAnimationFrame(focusNewHeading), [])
  const close = () => paletteStore.set(false)
  const choose = ({ href, run }: Found, inNewTab: boolean) => {
    close()
    if (href && inNewTab) window.open(href, '_blank', 'noopener')
    else if (href) goTo(href)
    else run?.()
  }
  return (
    <List
      label={text.palette}
      placeholder={text.placeholder}
      hint={text.hint}
      empty={isCurrent && query ? text.noResultText(query) : ''}
      groups={groups}
      more={text.more}
      onQuery={setQuery}
      onChoose={choose}
      onClose={close}
    />
  )
}

/** Groups of one name become one; empty groups are left out. */
function merged(groups: readonly Group[]): Group[] {
  return [...Map.groupBy(groups, ({ value }) => value)].flatMap(([value, all]) => {
    const items = [...new Map(all.flatMap((one) => one.items).map((item) => [item.value, item])).values()]
    return items.length === 0 ? [] : [{ value, items, more: all.reduce((sum, one) => sum + one.more, 0) }]
  })
}
