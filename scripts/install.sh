#!/usr/bin/env bash
# Installs what is missing, with apt: scripts/install.sh [build] [python] [tests] [browser] [checks] [tidy] [peers]
# The other scripts call it, so that a fresh Debian 12 needs no preparation.
set -euo pipefail

packages=()
for group in "${@:-build}"; do
  case $group in
    build)
      packages+=(g++ cmake ninja-build ccache)
      packages+=(libfmt-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libdnnl-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libxxhash-dev libmimalloc-dev)
      packages+=(libicu-dev) # kinds and forms of characters, for tokenizers
      packages+=(coinor-libcbc-dev) # the integer program of search/integer
      packages+=(libopenmpi-dev openmpi-bin)
      packages+=(libonnx-dev libprotobuf-dev protobuf-compiler) # CMake finds protobuf only with its compiler
      ;;
    python) packages+=(pybind11-dev python3-dev python3-numpy python3-pytest python3-mypy python3-pip python3-venv python3-setuptools python3-wheel) ;;
    tests) packages+=(libgtest-dev python3-torch python3-torchvision python3-onnx python3-pil chromium) ;;
    browser) packages+=(chromium python3) ;;
    checks) packages+=(clang-format shellcheck) ;;
    tidy) packages+=(clang-tidy-16 libomp-16-dev) ;; # clang cannot read GCC's omp.h
    peers) packages+=(python3-torch python3-torchvision python3-numpy libopenblas0-openmp) ;;
    *)
      echo "install.sh: group '$group' is unknown; there are build, python, tests, browser, checks, tidy, peers" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "install.sh: no apt here; install these packages (names of Debian 12): ${packages[*]}" >&2
  exit 2
fi

is_installed() { [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: missing ${missing[*]}; run as root: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

echo "installing ${missing[*]}" >&2
# Package lists that are missing or old make the first try fail; only then are they fetched.
install || { "${as_root[@]}" apt-get update -q >&2 && install; } || {
  echo "install.sh: apt-get could not install ${missing[*]}; see its messages above" >&2
  exit 1
}
