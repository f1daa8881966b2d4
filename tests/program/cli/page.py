"""The pages of `gyre show --html` and `gyre trace --html` in a real Chromium, by keys and buttons.
What a schedule shows at the end is held against `gyre show --run`, which prints what the player of
the proof has played.

    page.py TOOL FOLDER EXERCISES [STEP]

With a step every so many schedules are played to their end.
Waits are for what the page says of itself; the deadline of a wait is only for a page that hangs."""
import glob
import json
import os
import shutil
import subprocess
import sys

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

TOOL, FOLDER, EXERCISES = sys.argv[1:4]
STEP = int(''.join(sys.argv[4:]) or 1)
HANGS = 600  # seconds
SCRIPT_MAX = 60 * 1024  # bytes

# Every operation, and every algorithm of each; blocks of unequal length, nodes, roots.
CASES = [
    f'all_reduce -n 5 --algo {name}' for name in (
        'ring direct tree doubling halving_doubling knomial double_tree chain'.split())
] + [
    'all_reduce --algo two_level --nodes 3+2',
    'all_reduce -n 1',
    'broadcast -n 5 --algo tree --root 2',
    'broadcast -n 5 --algo ring',
    'reduce -n 5 --algo tree --root 1',
    'all_gather --algo bruck -n 5',
    'all_gather --counts 3,0,5',
    'reduce_scatter -n 4 --algo ring',
    'all_to_all -n 5 --algo bruck',
    'all_to_all -n 3 --algo direct --in-place',
    'gather -n 5 --algo tree --root 3',
    'scatter --counts 3,0,5 --root 1',
]


def check(held, what):
    if not held:
        raise AssertionError(what)


def start():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium')
    for word in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                 '--window-size=1280,900'):
        options.add_argument(word)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which('chromedriver')))
    driver.set_page_load_timeout(HANGS)
    driver.set_script_timeout(HANGS)
    return driver


def show(words):
    done = subprocess.run([TOOL, 'show'] + words, capture_output=True, text=True, check=True)
    return done.stdout


def load(driver, path):
    driver.get(f'file://{path}')
    wait(driver, '!!page.lanes')  # the heading is painted before the pictures are built


def open_page(driver, words):
    path = f'{FOLDER}/page.html'
    show(words.split() + ['--html', path])
    driver.get_log('performance')
    load(driver, path)


def ends_of(words):
    """The OUTPUT of every rank, as `gyre show --run` prints it; None: not written."""
    last = show(words.split() + ['--run']).rsplit('\nafter round ', 1)[1]
    ends = []
    for line in last.splitlines():
        if line.startswith('  rank '):
            numbers = line.split('scratch')[0].split()[2:]
            ends.append([None if x == '.' else int(x) for x in numbers if x not in '|-'])
    return ends


def state(driver, round_of='page.round'):
    return driver.execute_script(
        f'return page.stages.map(s => s.schedule.states[{round_of}].map(r => r["OUTPUT#"]))')


def press(driver, key):
    driver.find_element(By.TAG_NAME, 'body').send_keys(key)


def round_of(driver):
    return driver.execute_script('return page.round')


def wait(driver, condition):
    WebDriverWait(driver, HANGS, 0.05).until(lambda d: d.execute_script(f'return {condition}'))


def check_quiet(driver):
    """Nothing was fetched but the file, and nothing was said on the console."""
    messages = [json.loads(entry['message'])['message'] for entry in driver.get_log('performance')]
    for message in messages:
        if message['method'] == 'Network.requestWillBeSent':
            url = message['params']['request']['url']
            check(url.startswith(f'file://{FOLDER}/'), f'the page asks for {url}')
    check(not (said := driver.get_log('browser')), f'the console has {said}')


def final_states(driver):
    for words in CASES[::STEP]:
        open_page(driver, words)
        press(driver, Keys.END)
        wait(driver, 'page.round === page.rounds')
        check(state(driver)[0] == ends_of(words), f'{words}: another end than --run has')
        if driver.execute_script('return page.schedules[0].reduces'):
            loose = driver.execute_script('''
                const s = page.schedules[0], end = s.states[s.rounds.length];
                return end.flatMap((r, i) => r.OUTPUT.filter((v) => !s.isWhole(v)).map(() => i))''')
            check(not loose, f'{words}: ranks {loose} hold sums that lack a rank')
        check_quiet(driver)


def plays_to_the_end(driver):
    words = 'all_reduce --algo ring -n 4 -c 4'
    open_page(driver, words)
    for _ in range(2):
        press(driver, ']')
    check(driver.find_element(By.ID, 'speed').get_attribute('value') == '4', ']] is not 4 times')
    press(driver, ' ')
    wait(driver, 'page.round === page.rounds && !page.playing')
    rows = driver.find_elements(By.CSS_SELECTOR, '.memory tbody tr')
    shown = [[int(td.text) for td in row.find_elements(By.CSS_SELECTOR, 'td.output')]
             for row in rows]
    check(shown == ends_of(words), f'the table ends with {shown}')
    check(driver.find_element(By.ID, 'count').text == '9 / 9', 'the count is not 9 / 9')
    check_quiet(driver)


def keys(driver):
    open_page(driver, 'all_reduce --algo ring -n 4 --beside doubling')
    press(driver, Keys.ARROW_RIGHT)
    wait(driver, 'page.round === 1 && !page.running')
    said = driver.find_element(By.ID, 'said').get_attribute('textContent')
    check('Round 1 of 9' in said and 'reduce-scatter, step 1 of 3' in said, f'it says {said}')
    press(driver, Keys.END)
    check(round_of(driver) == 9, 'End is not the end')
    press(driver, Keys.ARROW_LEFT)
    check(round_of(driver) == 8, 'the left arrow does not go back')
    press(driver, Keys.HOME)
    check(round_of(driver) == 0, 'Home is not the beginning')
    press(driver, '2')
    followed = driver.find_elements(By.CSS_SELECTOR, '[data-rank="2"].followed')
    check(len(followed) == 4, '2 does not follow rank 2 in both circles and tables')
    press(driver, Keys.ESCAPE)
    check(not driver.find_elements(By.CSS_SELECTOR, '.followed'), 'Escape follows on')
    press(driver, '+')
    wide = driver.execute_script('const w = document.querySelector(".window");'
                                 'return w.scrollWidth / w.clientWidth')
    check(1.9 < wide < 2.1, f'+ makes the time {wide} times as wide')
    check(len(driver.find_elements(By.CSS_SELECTOR, '.stats .best')) == 1, 'nobody is fastest')
    check_quiet(driver)


def defects(driver):
    """A schedule with a defect plays up to it, and says it."""
    for file in sorted(set(glob.glob(f'{EXERCISES}/*.json')) -
                       set(glob.glob(f'{EXERCISES}/*-mended.json'))):
        path = f'{FOLDER}/page.html'
        done = subprocess.run([TOOL, 'check', file, '--html', path], capture_output=True, text=True,
                              check=False)
        load(driver, path)
        press(driver, Keys.END)
        wait(driver, 'page.round === page.rounds')
        shown = driver.find_element(By.ID, 'defect').text
        check(done.returncode == 1 and shown and shown in done.stderr, f'{file}: it shows {shown}')
        check_quiet(driver)


def everything_has_a_name(driver):
    unnamed = driver.execute_script('''
        const named = (e) => e.getAttribute('aria-label') || e.textContent.trim() ||
            e.labels?.length;
        return [...document.querySelectorAll('button, input, select, [role=button], [role=img]')]
            .filter((e) => !named(e)).map((e) => e.outerHTML)''')
    check(not unnamed, f'without a name: {unnamed}')


def fits(driver):
    for words in ('all_reduce --algo ring -n 5', 'all_reduce -n 16 --beside tree'):
        open_page(driver, words)
        for width in (360, 1280, 2560):
            driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
                'width': width, 'height': 900, 'deviceScaleFactor': 1, 'mobile': width < 500})
            wide = driver.execute_script('return document.scrollingElement.scrollWidth')
            check(wide <= width, f'{words}: {wide} px wide in a window of {width}')
        everything_has_a_name(driver)
    driver.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


def trace(driver):
    """The timeline of `gyre trace --html`: a job of two ranks, by keys and buttons."""
    traces, path = f'{FOLDER}/traces', f'{FOLDER}/timeline.html'
    os.mkdir(traces)
    subprocess.run([TOOL, 'show', f'{EXERCISES}/1-mended.json', '--run'], check=True,
                   capture_output=True, env=dict(os.environ, GYRE_TRACE=traces))
    subprocess.run([TOOL, 'trace', traces, '--html', path], check=True)
    driver.get_log('performance')
    driver.get(f'file://{path}')
    check('2 ranks' in driver.find_element(By.TAG_NAME, 'h1').text, 'it does not say 2 ranks')
    rows = driver.execute_script('return page.rows.map((r) => r.name)')
    check(rows.count('calls') == 2 and sum(r.endswith('lane 0') for r in rows) >= 2,
          f'the rows are {rows}')
    check(driver.execute_script('''return page.rows.every((r) =>
        r.begin.every((b, i) => b <= r.end[i] && (i === 0 || b >= r.end[i - 1])))'''),
          'bars of a row overlap')
    whole = driver.execute_script('return page.to - page.from')
    press(driver, '+')
    check(abs(driver.execute_script('return page.to - page.from') / whole - 0.5) < 0.01,
          '+ does not halve what is in sight')
    press(driver, Keys.HOME)
    check(driver.execute_script('return page.to - page.from') == whole, 'Home is not all of it')
    press(driver, Keys.ARROW_RIGHT)
    said = driver.find_element(By.ID, 'bar-facts').text
    check(said.startswith('Rank 0, calls: '), f'the first bar says {said}')
    driver.execute_script('''
        const pair = [...page.ends.values()].find((ends) => ends.length === 2 &&
            ends.some(([row, i]) => row.rank.rank === 0 && row.bar(i).kind === 1));
        page.choose(...pair.find(([row, i]) => row.bar(i).kind === 1));''')
    said = driver.find_element(By.ID, 'bar-facts').text
    check('Rank 0' in said and 'lane 0: send to 1' in said, f'a send says {said}')
    press(driver, 'o')
    said = driver.find_element(By.ID, 'bar-facts').text
    check('Rank 1' in said and 'lane 0: receive from 0' in said, f'its other end says {said}')
    press(driver, Keys.ENTER)
    check(driver.execute_script('return page.to - page.from') < whole / 4, 'Enter does not zoom')
    press(driver, Keys.ESCAPE)
    check(not driver.find_element(By.ID, 'bar-facts').text, 'Escape keeps the bar')
    driver.find_element(By.ID, 'theme').click()
    check(driver.execute_script('return document.documentElement.dataset.theme') == 'dark',
          'the button does not make it dark')
    check(driver.execute_script('return page.colours().panel') == '#131829', 'the canvas is light')
    everything_has_a_name(driver)
    for width in (360, 2560):
        driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': width, 'height': 900, 'deviceScaleFactor': 1, 'mobile': width < 500})
        wide = driver.execute_script('return document.scrollingElement.scrollWidth')
        check(wide <= width, f'the timeline is {wide} px wide in a window of {width}')
    driver.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})
    check_quiet(driver)
    is_small(driver)


def is_small(driver):
    script = driver.execute_script('return document.scripts[1].textContent').encode()
    check(len(script) <= SCRIPT_MAX, f'{len(script)} bytes of script, more than {SCRIPT_MAX}')


def main():
    driver = start()
    try:
        for test in (final_states, plays_to_the_end, keys, defects, fits, is_small, trace):
            test(driver)
            print(f'{test.__name__}: ok', flush=True)
    finally:
        driver.quit()


main()
