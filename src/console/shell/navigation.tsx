/** The navigation: screens over all tenants. At 1024 px a rail of icons, at 390 px a bar below the content. */

import { useSyncExternalStore } from 'react'
import { Icon } from '../components/base/icon.tsx'
import { MenuTrigger } from '../components/menu.tsx'
import { signOut, useSession } from '../data/session.ts'
import { settings } from '../data/settings.ts'
import { helpStore, isMac, paletteStore } from '../keys/keys.ts'
import { href } from '../routing/links.ts'
import { screens } from '../routing/registry.ts'
import { usePath } from '../routing/router.tsx'
import { useAppearance } from './appearance.ts'
import { Mark } from './mark.tsx'
import { text } from './text.ts'

const isBelow = (path: string, screen: string): boolean =>
  screen === '/' ? path === '/' : path === screen || path.startsWith(`${screen}/`)

export function Navigation() {
  const path = usePath()
  const entries = [
    { path: '/', title: text.home, icon: 'home' as const, order: 0, start: {} },
    ...screens().flatMap(({ path, title, start, navigation }) =>
      navigation ? [{ path, title, start, ...navigation }] : [],
    ),
  ].toSorted((a, b) => a.order - b.order)
  return (
    <nav className="navigation" aria-label={text.navigation}>
      <a className="brand" href={href('/')}>
        <Mark />
        <span>{settings.name}</span>
      </a>
      <div className="palette-button">
        <button type="button" className="button" onClick={() => paletteStore.set(true)}>
          <Icon name="search" />
          <span>{text.search}</span>
          <kbd>{isMac ? text.paletteKeyOfMac : text.paletteKey}</kbd>
        </button>
      </div>
      <ul>
        {entries.map(({ path: target, title, start, icon }) => (
          <li key={target}>
            <a href={href(target, start)} aria-current={isBelow(path, target) ? 'page' : undefined}>
              <Icon name={icon} />
              <span>{title}</span>
            </a>
          </li>
        ))}
      </ul>
      <Account further={entries.slice(SHOWN_IN_BAR)} />
    </nav>
  )
}

/** Entries in the bar of a small window; its menu has the others. */
const SHOWN_IN_BAR = 3
const SMALL = matchMedia('(width < 640px)')
const subscribe = (listener: () => void) => {
  SMALL.addEventListener('change', listener)
  return () => SMALL.removeEventListener('change', listener)
}

interface Entry {
  readonly path: string
  readonly title: string
  readonly start: Readonly<Record<string, string>> | undefined
}

function Account({ further }: { further: readonly Entry[] }) {
  const { name } = useSession()
  const isSmall = useSyncExternalStore(subscribe, () => SMALL.matches)
  const screens = further.map(({ path, title, start }) => ({ title, href: href(path, start) }))
  const appearance = useAppearance().map(({ title, isChosen, choose }) => ({
    title: isChosen ? `${title} ✓` : title,
    onSelect: choose,
  }))
  const entries = [
    ...(isSmall ? screens : []),
    ...appearance,
    { title: text.help, key: '?', onSelect: () => helpStore.set(true) },
    { title: text.api, href: `${settings.prefix}/openapi` },
    { title: text.signOut, onSelect: signOut },
  ]
  return (
    <div className="account">
      <MenuTrigger label={name} entries={entries}>
        <Icon name={isSmall ? 'more' : 'person'} />
        <span className="account-name">{isSmall ? text.more : name}</span>
        <Icon name="down" size={12} />
      </MenuTrigger>
    </div>
  )
}
