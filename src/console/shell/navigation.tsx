/** The navigation: screens over all tenants. At 1024 px a rail of icons, at 390 px a bar below the content. */

import { Icon } from '../components/base/icon.tsx'
import { MenuTrigger } from '../components/menu.tsx'
import { signOut, useSession } from '../data/session.ts'
import { settings } from '../data/settings.ts'
import { useStore } from '../data/store.ts'
import { href } from '../routing/links.ts'
import { screens } from '../routing/registry.ts'
import { usePath } from '../routing/router.tsx'
import { Mark } from './mark.tsx'
import { text } from './text.ts'
import { setTheme, type Theme, themeStore } from './theme.ts'

const isBelow = (path: string, screen: string): boolean =>
  screen === '/' ? path === '/' : path === screen || path.startsWith(`${screen}/`)

export function Navigation() {
  const path = usePath()
  const entries = screens()
    .flatMap(({ path, title, navigation }) => (navigation ? [{ path, title, ...navigation }] : []))
    .toSorted((a, b) => a.order - b.order)
  return (
    <nav className="navigation" aria-label={text.navigation}>
      <a className="brand" href={href('/')}>
        <Mark />
        <span>{settings.name}</span>
      </a>
      <ul>
        {[{ path: '/', title: text.home, icon: 'home' as const }, ...entries].map(({ path: target, title, icon }) => (
          <li key={target}>
            <a href={href(target)} aria-current={isBelow(path, target) ? 'page' : undefined}>
              <Icon name={icon} />
              <span>{title}</span>
            </a>
          </li>
        ))}
      </ul>
      <Account />
    </nav>
  )
}

function Account() {
  const { name } = useSession()
  const theme = useStore(themeStore)
  const themes = (Object.keys(text.themes) as Theme[]).map((one) => ({
    title: `${text.theme}: ${text.themes[one]}${one === theme ? ' ✓' : ''}`,
    onSelect: () => setTheme(one),
  }))
  const entries = [
    ...themes,
    { title: text.api, href: `${settings.prefix}/openapi` },
    { title: text.signOut, onSelect: signOut },
  ]
  return (
    <div className="account">
      <MenuTrigger label={name} entries={entries}>
        <Icon name="person" />
        <span className="account-name">
          <span className="hidden">{text.signedInAs} </span>
          {name}
        </span>
        <Icon name="down" size={12} />
      </MenuTrigger>
    </div>
  )
}
